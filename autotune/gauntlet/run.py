"""Running the gauntlet: every attack, every honest run, in the record and over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from autotune.gauntlet.loopback import LoopbackBench, Make
from tools.errors import UserError
from verifiers.evidence import Evidence
from verifiers.gauntlet.case import Exam, examine
from verifiers.gauntlet.cases import CASES
from verifiers.gauntlet.classes import CLASSES
from verifiers.gauntlet.controls import CONTROLS
from verifiers.gauntlet.honest import tell
from verifiers.gauntlet.outcome import Attacked, Controlled, Outcome
from verifiers.gauntlet.recall import Recall
from verifiers.gauntlet.servers import LIARS, Engine, Host, Liar, Setup
from verifiers.gauntlet.servers.honest import HONEST, WORKLOAD, HonestServer
from verifiers.gauntlet.story import Story

__all__ = ["Told", "run_gauntlet"]

Item = TypeVar("Item")

_TRIES = 3
_PASSING = frozenset({"soundness.doubts", "drift.bracket"})
"""What says that a measurement itself is no good, as on a machine that is busy with other things: then, as the harness
would, it is measured again."""
_GAIN = 0.6
"Of the honest wait for a first token, in the candidates that lie."

OVER_HTTP = Story().changed(
    workload=WORKLOAD,
    objective={"metric": "mean_ttft_ms", "min_effect": 0.05},
    guardrails=[],
    evals=[],
)
"""What the servers are measured by."""


class Told(Protocol):
    """Is told how far it is."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None: ...

    def note(self, text: str) -> None: ...


def run_gauntlet(told: Told, *, only: str | None = None, over_http: bool = True) -> Outcome:
    """Run all of it, or what is about one class, rule or case.

    Args:
        only: a class of the catalogue (`A01`), a rule (`cache.prefix_hits`) or the id of a case, a liar or a control.

    Raises:
        UserError: nothing is called `only`.
    """
    cases = [case for case in CASES if only in (None, case.attack, case.rule, case.id)]
    liars = [liar for liar in LIARS if over_http and only in (None, liar.attack, liar.rule, liar.id)]
    controls = [control for control in CONTROLS if only in (None, control.id)]
    servers = [server for server in HONEST if over_http and only in (None, server.id)]
    if not (cases or liars or controls or servers):
        raise UserError(
            f"--only: expected a class ({min(CLASSES)} to {max(CLASSES)}), a rule or the id of a case, found {only!r}"
        )
    steps = _Steps(told, len(cases) + len(controls), len(liars) + len(servers))
    recall = Recall()
    attacks = []
    for case in steps.through(cases, "attack", lambda case: f"{case.id} {case.lie}"):
        attacks.append(Attacked(case.id, case.attack, case.rule, case.lie, "record", examine(case.build(), recall)))
    honest = []
    for control in steps.through(controls, "honest", lambda control: f"{control.id} {control.what}"):
        exam = examine(control.build(), recall)
        honest.append(Controlled(control.id, control.what, "record", control.allowed, control.must_refuse, exam))
    with Host() as host:
        kept = LoopbackBench(host, Engine, Engine)
        for liar in steps.through(liars, "liar", lambda liar: f"{liar.id} {liar.lie}", slow=True):
            attacks.append(_lied(liar, host, kept))
        for server in steps.through(servers, "honest server", lambda server: f"{server.id} {server.what}", slow=True):
            honest.append(_served(server, host))
    return Outcome(tuple(attacks), tuple(honest), complete=only is None)


def _lied(liar: Liar, host: Host, kept: LoopbackBench) -> Attacked:
    def make(setup: Setup) -> Engine:
        return liar.engine(replace(setup, ttft_s=setup.ttft_s * _GAIN))

    def tried() -> Evidence:
        bench = LoopbackBench(host, Engine, make, liar.questioned, kept.kept)
        return tell(replace(OVER_HTTP, bench=bench))

    exam = _sound(tried, lambda exam: liar.rule in exam.refused_by)
    return Attacked(liar.id, liar.attack, liar.rule, liar.lie, "http", exam)


def _served(server: HonestServer, host: Host) -> Controlled:
    def made(scale: float) -> Make:
        return lambda setup: Engine(replace(setup, ttft_s=server.ttft_s * scale, itl_s=server.itl_s))

    def tried() -> Evidence:
        bench = LoopbackBench(host, made(1.0), made(server.gain), questioned=server.questioned)
        return tell(replace(OVER_HTTP.changed(**server.deployment), bench=bench))

    exam = _sound(tried, lambda exam: exam.refused_by <= server.allowed)
    return Controlled(server.id, server.what, "http", server.allowed, server.must_refuse, exam)


def _sound(measure: Callable[[], Evidence], enough: Callable[[Exam], bool]) -> Exam:
    """The exam of a measurement; measured again where it is itself in doubt."""
    exam = examine(measure())
    for _ in range(_TRIES - 1):
        if enough(exam) or not exam.refused_by & _PASSING:
            break
        exam = examine(measure())
    return exam


class _Steps:
    """Tells what is under way, with the time left."""

    def __init__(self, told: Told, quick: int, slow: int) -> None:
        self._told = told
        self._left = {False: quick, True: slow}
        self._cost_s = {False: 0.25, True: 5.0}

    def through(
        self, items: list[Item], name: str, said: Callable[[Item], str], *, slow: bool = False
    ) -> Iterator[Item]:
        """The items, each announced before its turn and timed."""
        for item in items:
            left_s = sum(count * self._cost_s[kind] for kind, count in self._left.items())
            self._told.phase(name, said(item), left_s)
            began = time.monotonic()
            yield item
            self._left[slow] -= 1
            self._cost_s[slow] += 0.3 * (time.monotonic() - began - self._cost_s[slow])
