"""Advice: what a playbook's hypotheses come to for one config of one deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.expression import Expression, ExpressionError
from agents.playbook import Hypothesis, Playbook
from agents.view import View
from tools.errors import UserError
from tools.targets.knobs import Knob, Value

__all__ = ["Advice", "advise", "advise_all"]


@dataclass(frozen=True, slots=True)
class Advice:
    """A hypothesis that holds where one stands, with its values worked out."""

    hypothesis: Hypothesis
    patch: Mapping[str, Value]
    "Only what differs from the config that the advice was asked for."


def advise(
    playbook: Playbook, view: View, config: Mapping[str, Value], metrics: Mapping[str, float]
) -> Iterator[Advice]:
    """Each hypothesis that holds for `config` (a full one) with its measured `metrics`, taken alone.

    A hypothesis is passed over where one of its knobs may not be changed, where a fact that it needs isn't known, or
    where its values stand already.

    Raises:
        UserError: a hypothesis that can't be worked out, or a value that its knob can't take.
    """
    facts = _facts(playbook, view, config, metrics)
    for hypothesis in playbook.hypotheses:
        if patch := _patch(hypothesis, playbook, view, config, facts):
            yield Advice(hypothesis, patch)


def advise_all(
    playbook: Playbook, view: View, config: Mapping[str, Value], metrics: Mapping[str, float]
) -> tuple[Advice, ...]:
    """The hypotheses that hold when they are applied one upon the other, in order: each sees what came before it."""
    found: list[Advice] = []
    standing = dict(config)
    for hypothesis in playbook.hypotheses:
        facts = _facts(playbook, view, standing, metrics)
        if patch := _patch(hypothesis, playbook, view, standing, facts):
            found.append(Advice(hypothesis, patch))
            standing.update(patch)
    return tuple(found)


def _facts(
    playbook: Playbook, view: View, config: Mapping[str, Value], metrics: Mapping[str, float]
) -> dict[str, object]:
    facts: dict[str, object] = {
        "baseline": dict(view.baseline.values),
        "config": dict(config),
        "workload": dict(view.workload),
        "hardware": dict(view.hardware),
        "metrics": dict(metrics),
        "slo": dict(view.slo),
    }
    for name, source in playbook.define.items():
        value = _value(source, facts, f"playbook {playbook.name}, define.{name}")
        if value is not None:
            facts[name] = value
    return facts


def _patch(
    hypothesis: Hypothesis, playbook: Playbook, view: View, config: Mapping[str, Value], facts: Mapping[str, object]
) -> dict[str, Value]:
    """Values that differ from `config`; empty where the hypothesis doesn't hold."""
    place = f"playbook {playbook.name}, hypothesis {hypothesis.id}"
    if not all(name in view.space.knobs and view.space[name].tunable for name in hypothesis.attempt):
        return {}
    if not _value(hypothesis.when, facts, place):
        return {}
    patch: dict[str, Value] = {}
    for name, said in hypothesis.attempt.items():
        value = _value(said, facts, place) if isinstance(said, str) else said
        if value is None:
            return {}
        knob = view.space[name]
        try:
            patch[name] = knob.check(_fitted(knob, value) if isinstance(said, str) else value)
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    return {name: value for name, value in patch.items() if config.get(name) != value}


def _value(source: str, facts: Mapping[str, object], place: str) -> Value | None:
    try:
        return Expression(source).value(facts)
    except ExpressionError as error:
        raise UserError(f"{place}: {error}") from None


def _fitted(knob: Knob, value: Value) -> Value:
    """A number that was worked out, brought to the nearest that the knob takes.

    A rule of thumb gives a direction and a size; only what is written out as a number is meant to the digit.
    """
    if isinstance(value, bool | str) or knob.kind == "bool":
        return value
    if knob.kind == "choice":
        numbers = [choice for choice in knob.choices if not isinstance(choice, bool | str)]
        return min(numbers, key=lambda choice: abs(choice - value)) if numbers else value
    fitted = round(value) if knob.kind == "int" else value
    if knob.low is not None and fitted < knob.low:
        fitted = knob.low
    if knob.high is not None and fitted > knob.high:
        fitted = knob.high
    return int(fitted) if knob.kind == "int" else fitted
