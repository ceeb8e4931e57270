"""Bearing: whether what a hypothesis expects is anything that this deployment asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agents.actions import Direction
from agents.playbook import Hypothesis
from agents.view import View
from tools.measure.summary import METRICS, lower_is_better

__all__ = ["asked_for", "bears"]

Family = Literal["first", "pace", "whole", "volume"]

_FAMILY_OF: Mapping[str, Family] = {
    **{metric: "first" for metric in METRICS if "ttft" in metric},
    **{metric: "pace" for metric in METRICS if any(word in metric for word in ("tpot", "itl", "stutter"))},
    **{metric: "whole" for metric in METRICS if any(word in metric for word in ("e2el", "task"))},
}
"""All other metrics count work per time, or shares of all requests: `volume`."""

_ANY: frozenset[Family] = frozenset({"first", "pace", "whole", "volume"})
_SERVED_BY: Mapping[Family, frozenset[Family]] = {
    "first": frozenset({"first"}),
    "pace": frozenset({"pace"}),
    # A request takes its first token's time and that of all the others; requests per second follow from that.
    "whole": _ANY,
    "volume": _ANY,
}


def asked_for(view: View, metrics: Mapping[str, float]) -> frozenset[Family]:
    """Kinds of metrics that serve the objective, or a promise that `metrics` break.

    An objective that is none of METRICS, such as a score made of several, is served by all.
    """
    missed = {name for name, bound in view.slo.items() if not metrics.get(name, bound + 1) <= bound}
    wanted = {view.objective_metric, *missed}
    if wanted - set(METRICS):
        return _ANY
    return frozenset().union(*(_SERVED_BY[_FAMILY_OF.get(metric, "volume")] for metric in wanted))


def bears(hypothesis: Hypothesis, asked: frozenset[Family]) -> bool:
    """Whether an improvement that `hypothesis` expects is among `asked`.

    One that expects no improvement at all names only the price of something that no trial measures, such as a shorter
    start, and always bears.
    """
    gains = [metric for metric, direction in hypothesis.expect.items() if direction == _better(metric)]
    return not gains or any(_FAMILY_OF.get(metric, "volume") in asked for metric in gains)


def _better(metric: str) -> Direction:
    return "lower" if lower_is_better(metric) else "higher"
