"""Ground: what a playbook's expressions see in one deployment, and what a hypothesis comes to there."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agents.bearing import asked_for, bears
from agents.expression import Expression, ExpressionError
from agents.playbook import Hypothesis, Playbook
from agents.view import View
from tools.errors import UserError
from tools.targets.knobs import Knob, Value

__all__ = ["Ground"]


class Ground:
    """What a playbook's expressions see, whatever config one stands on."""

    def __init__(self, playbook: Playbook, view: View, metrics: Mapping[str, float]) -> None:
        self._playbook, self._view = playbook, view
        bounds = {knob.name: _bounds(knob) for knob in view.space}
        self._fixed: Mapping[str, object] = {
            "baseline": dict(view.baseline.values),
            "least": {name: low for name, (low, _) in bounds.items() if low is not None},
            "most": {name: high for name, (_, high) in bounds.items() if high is not None},
            "workload": dict(view.workload),
            "hardware": dict(view.hardware),
            "metrics": dict(metrics),
            "slo": dict(view.slo),
        }
        asked = asked_for(view, metrics)
        self.hypotheses = [hypothesis for hypothesis in playbook.hypotheses if bears(hypothesis, asked)]

    def facts(self, config: Mapping[str, Value]) -> dict[str, object]:
        facts: dict[str, object] = {**self._fixed, "config": dict(config)}
        for name, source in self._playbook.define.items():
            value = _value(source, facts, f"playbook {self._playbook.name}, define.{name}")
            if value is not None:
                facts[name] = value
        return facts

    def patch(
        self, hypothesis: Hypothesis, config: Mapping[str, Value], facts: Mapping[str, object]
    ) -> dict[str, Value]:
        """Values that differ from `config`; empty where the hypothesis doesn't hold."""
        place = f"playbook {self._playbook.name}, hypothesis {hypothesis.id}"
        space = self._view.space
        if not all(name in space.knobs and space[name].tunable for name in hypothesis.attempt):
            return {}
        if not _value(hypothesis.when, facts, place):
            return {}
        patch: dict[str, Value] = {}
        for name, said in hypothesis.attempt.items():
            value = _value(said, facts, place) if isinstance(said, str) else said
            knob = space[name]
            if value is None or _is_foreign(knob, value):
                return {}
            try:
                patch[name] = knob.check(_fitted(knob, value))
            except UserError as error:
                raise UserError(f"{place}: {error}") from None
        return {name: value for name, value in patch.items() if config.get(name) != value}


def _is_foreign(knob: Knob, value: Value) -> bool:
    """Whether `value` is a choice that another engine's knob of the same name has, and this one hasn't."""
    return knob.kind == "choice" and value not in knob.choices and not _numbers(knob)


def _value(source: str, facts: Mapping[str, object], place: str) -> Value | None:
    try:
        return Expression(source).value(facts)
    except ExpressionError as error:
        raise UserError(f"{place}: {error}") from None


def _numbers(knob: Knob) -> list[int | float]:
    return [choice for choice in knob.choices if not isinstance(choice, bool | str)]


def _bounds(knob: Knob) -> tuple[float | None, float | None]:
    """The least and the most that a knob may be; None for a word, for true and false, and where nothing is said."""
    if knob.kind != "choice":
        return knob.low, knob.high
    return min(_numbers(knob), default=None), max(_numbers(knob), default=None)


def _distance(choice: float, value: float) -> float:
    """By ratio, as sizes differ; by difference where there is none."""
    return abs(math.log(choice / value)) if choice > 0 and value > 0 else abs(choice - value)


def _fitted(knob: Knob, value: Value) -> Value:
    """A number, brought to the nearest that the knob takes in this deployment, which may be narrower than the engine's
    own range. A rule of thumb gives a direction and a size. Whether what is written out fits the engine at all is asked
    by `autotune playbook check`.
    """
    if isinstance(value, bool | str) or knob.kind == "bool":
        return value
    if knob.kind == "choice":
        return min(_numbers(knob), key=lambda choice: _distance(choice, value), default=value)
    fitted = round(value) if knob.kind == "int" else value
    if knob.low is not None and fitted < knob.low:
        fitted = knob.low
    if knob.high is not None and fitted > knob.high:
        fitted = knob.high
    return int(fitted) if knob.kind == "int" else fitted
