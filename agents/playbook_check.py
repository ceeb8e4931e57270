"""What is wrong with a playbook, found without serving anything: advice is tried out in many drawn situations."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.advice import advise, advise_all
from agents.engines import EngineName
from agents.expression import Expression, ExpressionError
from agents.ground import Ground
from agents.playbook import Hypothesis, Playbook
from agents.situations import Situation
from tools.errors import UserError
from tools.targets.knobs import Config, KnobSpace, Value

__all__ = ["CHECKS", "Finding", "Rule", "check_playbook"]

Rule = Literal["knobs", "value", "sense", "reach", "start", "circle", "budget"]

CHECKS: Mapping[Rule, str] = {
    "knobs": "a knob that the engine it is `for` doesn't have",
    "value": "a written-out value that the engine's knob can't take",
    "sense": "an expression that can't be worked out: a word against a number, a division by zero",
    "reach": "a `when` that holds in none of the situations, or only where the values stand already",
    "start": "a config that the engine's own closed-form checks refuse: out of memory, knobs that don't go together",
    "circle": "hypotheses that undo one another, so that following them never ends",
    "budget": "a step's budget that grows with sequences times their length: that is the KV cache's size, not a step's",
}
"""Each rule, and what it finds."""

_ROUNDS = 12
"Times that all that holds is followed, one state after the other, before it is called endless."

_REFUSALS = 0.1
"""Share of the situations in which advice to be tried alone may be refused: its refusal costs no trial, while one that
is refused among others takes them all with it."""

_STEP_BUDGETS = frozenset({"max_num_batched_tokens", "chunked_prefill_size", "batch", "ubatch"})
_SEATS = frozenset({"max_num_seqs", "max_running_requests", "parallel"})
_LOADS = frozenset({"concurrency", "rate_rps", "requests"})
_PRODUCT = 3.5
"Twice the sequences of twice the length: a product grows fourfold, a sum twofold."


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, and where it shows."""

    rule: Rule
    playbook: str
    hypotheses: tuple[str, ...]
    sentence: str
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    "The first situation in which it shows; empty where it shows without one."

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def check_playbook(
    playbook: Playbook,
    spaces: Mapping[EngineName, KnobSpace],
    situations: Sequence[Situation],
    further: Sequence[Situation] = (),
) -> tuple[Finding, ...]:
    """All that is wrong with `playbook`, each fault once.

    Args:
        spaces: every knob of each engine.
        situations: of all engines that the playbook's hypotheses are `for`.
        further: looked through only for what holds in none of `situations`.
    """
    found = [*_knobs(playbook, spaces), *_values(playbook, spaces)]
    if found:
        return tuple(found)
    held: Counter[str] = Counter()
    refused: dict[str, list[Finding]] = {}
    for situation in situations:
        for problem in _in(playbook, situation, held):
            if problem.rule == "start":
                refused.setdefault(problem.hypotheses[0], []).append(problem)
            else:
                found.append(problem)
        found += _followed(playbook, situation)
    _look_further(playbook, further, held)
    for hypothesis in playbook.hypotheses:
        refusals = refused.get(hypothesis.id, [])
        if len(refusals) > (_REFUSALS * held[hypothesis.id] if hypothesis.alone else 0):
            found.append(refusals[0])
        tried = sum(situation.engine in hypothesis.engines for situation in (*situations, *further))
        if not held[hypothesis.id]:
            said = f"it comes to nothing in any of {tried} situations of {', '.join(hypothesis.engines)}"
            found.append(Finding("reach", playbook.name, (hypothesis.id,), said))
    found += _budgets(playbook, situations)
    first: dict[tuple[Rule, tuple[str, ...]], Finding] = {}
    for finding in found:
        first.setdefault((finding.rule, finding.hypotheses), finding)
    return tuple(first.values())


def _knobs(playbook: Playbook, spaces: Mapping[EngineName, KnobSpace]) -> Iterator[Finding]:
    for engine, space in spaces.items():
        try:
            playbook.check_knobs({knob.name: knob.default for knob in space}, engine)
        except UserError as error:
            yield Finding("knobs", playbook.name, (), str(error))


def _values(playbook: Playbook, spaces: Mapping[EngineName, KnobSpace]) -> Iterator[Finding]:
    """What is written out must fit as it stands: as a value, or as a word in quotes."""
    for hypothesis in playbook.hypotheses:
        for engine in (engine for engine in hypothesis.engines if engine in spaces):
            for name, said in hypothesis.attempt.items():
                try:
                    constant = Expression(said).value({}) if isinstance(said, str) else said
                    if constant is not None:
                        spaces[engine][name].check(constant)
                except (UserError, ExpressionError) as error:
                    yield Finding("value", playbook.name, (hypothesis.id,), f"for {engine}: {error}")


def _in(playbook: Playbook, situation: Situation, held: Counter[str]) -> Iterator[Finding]:
    """Each hypothesis alone; `held` counts those for which the situation's engine is theirs."""
    view, baseline = situation.view, situation.view.baseline
    try:
        for advice in advise(playbook, view, baseline.values, situation.metrics):
            held[advice.hypothesis.id] += situation.engine in advice.hypothesis.engines
            if refusal := situation.starts(baseline.patched(advice.patch)):
                sentence = f"{_said(advice.patch)} would not start: {refusal}"
                yield Finding("start", playbook.name, (advice.hypothesis.id,), sentence, _facts(situation))
    except UserError as error:
        yield _senseless(playbook, situation, error)


def _look_further(playbook: Playbook, further: Sequence[Situation], held: Counter[str]) -> None:
    """Count where the hypotheses hold that never did, until each has."""
    for situation in further:
        rare = tuple(hypothesis for hypothesis in playbook.hypotheses if not held[hypothesis.id])
        theirs = tuple(hypothesis for hypothesis in rare if situation.engine in hypothesis.engines)
        if not rare:
            return
        if theirs:
            for _ in _in(playbook.model_copy(update={"hypotheses": theirs}), situation, held):
                pass  # what else is wrong with them shows where all are looked at


def _senseless(playbook: Playbook, situation: Situation, error: UserError) -> Finding:
    ids = tuple(h.id for h in playbook.hypotheses if f"hypothesis {h.id}:" in str(error))
    return Finding("sense", playbook.name, ids, str(error), _facts(situation))


def _followed(playbook: Playbook, situation: Situation) -> Iterator[Finding]:
    """All that holds together, followed until nothing does."""
    standing: dict[str, Value] = dict(situation.view.baseline.values)
    seen = [standing]
    said: list[str] = []
    for _ in range(_ROUNDS):
        try:
            together = advise_all(playbook, situation.view, standing, situation.metrics)
        except UserError as error:
            yield _senseless(playbook, situation, error)
            return
        said = [advice.hypothesis.id for advice in together]
        reached = {**standing, **{name: value for one in together for name, value in one.patch.items()}}
        if reached == standing:
            break
        if refusal := situation.starts(Config(reached)):
            changed = {name: value for name, value in reached.items() if value != situation.view.baseline.values[name]}
            sentence = f"together, {_said(changed)} would not start: {refusal}"
            yield Finding("start", playbook.name, tuple(said), sentence, _facts(situation))
            return
        if reached in seen:
            break
        standing = reached
        seen.append(reached)
    else:
        said.append("and so on")
    if said:
        yield Finding("circle", playbook.name, tuple(said), "following these never ends", _facts(situation))


def _budgets(playbook: Playbook, situations: Sequence[Situation]) -> Iterator[Finding]:
    """Twice the sequences of twice the length need four times the cache, and a step of twice the tokens."""
    for hypothesis in playbook.hypotheses:
        for name, said in hypothesis.attempt.items():
            if name in _STEP_BUDGETS and isinstance(said, str):
                growths = [
                    _growth(playbook, hypothesis, said, situation)
                    for situation in situations
                    if situation.engine in hypothesis.engines
                ]
                known = [growth for growth in growths if growth is not None]
                if sum(growth >= _PRODUCT for growth in known) > len(known) / 2:
                    sentence = f"{name}: {said} grows as the KV cache does; a step holds one prompt and a token of each"
                    yield Finding("budget", playbook.name, (hypothesis.id,), sentence)


def _growth(playbook: Playbook, hypothesis: Hypothesis, said: str, situation: Situation) -> float | None:
    """How the value grows, on an endless machine, as the load becomes twice as many sequences of twice the length."""
    view = situation.view
    endless = dataclasses.replace(view, hardware={name: fact * 1e9 for name, fact in view.hardware.items()})
    larger = dataclasses.replace(
        endless,
        workload={
            name: fact * (2 if name in _LOADS or name.endswith("_tokens") else 1)
            for name, fact in endless.workload.items()
        },
    )
    config = dict(view.baseline.values)
    seats = {name: value * 2 for name, value in config.items() if name in _SEATS and isinstance(value, int)}
    try:
        before = Expression(said).value(Ground(playbook, endless, situation.metrics).facts(config))
        after = Expression(said).value(Ground(playbook, larger, situation.metrics).facts({**config, **seats}))
    except (ExpressionError, UserError):
        return None  # told elsewhere
    if isinstance(before, int | float) and isinstance(after, int | float) and before > 0:
        return after / before
    return None


def _said(patch: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {value}" for name, value in patch.items())


def _facts(situation: Situation) -> dict[str, Any]:
    view = situation.view
    return {
        "engine": situation.engine,
        "about": situation.about,
        "workload": dict(view.workload),
        "hardware": dict(view.hardware),
        "slo": dict(view.slo),
        "config": dict(view.baseline.values),
    }
