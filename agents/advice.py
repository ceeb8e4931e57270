"""Advice: what a playbook's hypotheses come to for one config of one deployment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from agents.ground import Ground
from agents.playbook import Hypothesis, Playbook
from agents.view import View
from tools.canonical import digest
from tools.targets.knobs import Value

__all__ = ["Advice", "Advised", "advise", "advise_all", "advised_priors"]


@dataclass(frozen=True, slots=True)
class Advice:
    """A hypothesis that holds where one stands, with its values worked out."""

    hypothesis: Hypothesis
    patch: Mapping[str, Value]
    "Only what differs from the config that the advice was asked for."


class Advised(NamedTuple):
    """A belief for a search to start from: data of its own, so that the search needn't know what a playbook is."""

    patch: Mapping[str, Value]
    "Against the baseline."
    why: str
    weight: float
    "0 to 1: how sure the playbook is."


def advise(
    playbook: Playbook, view: View, config: Mapping[str, Value], metrics: Mapping[str, float]
) -> Iterator[Advice]:
    """Each hypothesis that holds for `config` (a full one) with its measured `metrics`, taken alone.

    A hypothesis is passed over where it expects nothing that the deployment asks for, where one of its knobs may not be
    changed, where a fact that it needs isn't known, or where its values stand already.

    Raises:
        UserError: a hypothesis that can't be worked out, or a value that its knob can't take.
    """
    ground = Ground(playbook, view, metrics)
    facts = ground.facts(config)
    for hypothesis in ground.hypotheses:
        if patch := ground.patch(hypothesis, config, facts):
            yield Advice(hypothesis, patch)


def advise_all(
    playbook: Playbook, view: View, config: Mapping[str, Value], metrics: Mapping[str, float]
) -> tuple[Advice, ...]:
    """The hypotheses that hold when they are applied one upon the other, in order: each sees what came before it.

    Those that are to be tried `alone` are left out.
    """
    ground = Ground(playbook, view, metrics)
    found: list[Advice] = []
    standing = dict(config)
    facts = ground.facts(standing)
    for hypothesis in ground.hypotheses:
        if not hypothesis.alone and (patch := ground.patch(hypothesis, standing, facts)):
            found.append(Advice(hypothesis, patch))
            standing.update(patch)
            facts = ground.facts(standing)
    return tuple(found)


def advised_priors(playbook: Playbook, view: View) -> tuple[Advised, ...]:
    """What the playbook believes, as whole patches against the baseline, the surest first; none of them twice.

    All that holds together is surest, on the best config and on the baseline; then each hypothesis by itself; then
    those that only a measurement can decide, by themselves and two by two. A metric's direction has no part in it, so
    that it serves throughputs as well as latencies.
    """
    best, baseline = view.best, view.baseline_trial
    grounds = [best] if best is baseline else [best, baseline]
    believed: list[Advised] = []
    for trial in (trial for trial in grounds if trial is not None and trial.measured):
        standing = dict(trial.patch)
        config = {**view.baseline.values, **standing}
        together = advise_all(playbook, view, config, trial.metrics)
        merged = {**standing, **{name: value for advice in together for name, value in advice.patch.items()}}
        believed.append(Advised(merged, " ".join(advice.hypothesis.why for advice in together), 1.0))
        single = list(advise(playbook, view, config, trial.metrics))
        open_ = [advice for advice in single if advice.hypothesis.alone]
        believed += [
            Advised({**standing, **advice.patch}, advice.hypothesis.why, 0.7)
            for advice in single
            if not advice.hypothesis.alone
        ]
        believed += [Advised({**merged, **advice.patch}, advice.hypothesis.why, 0.5) for advice in open_]
        believed += [
            Advised({**merged, **one.patch, **two.patch}, f"{one.hypothesis.why} {two.hypothesis.why}", 0.25)
            for one, two in combinations(open_, 2)
            if not one.patch.keys() & two.patch.keys()
        ]
    return _once(view, believed)


def _once(view: View, believed: Iterable[Advised]) -> tuple[Advised, ...]:
    """`believed` by weight, without what says only what the baseline says, and no patch twice."""
    found: dict[str, Advised] = {}
    for one in sorted(believed, key=lambda one: -one.weight):
        if patch := view.changes(one.patch):
            found.setdefault(digest(patch), Advised(patch, one.why, one.weight))
    return tuple(found.values())
