"""Pictures of a comparison: every contender's ratio to the first, and each metric's own values."""

from __future__ import annotations

import math
from itertools import product

from autotune.compare.comparison import Comparison
from autotune.compare.metric import CompareMetric
from autotune.pages.chart import Chart
from autotune.pages.number import number
from autotune.pages.scale import Scale

__all__ = ["ratios", "values"]

_ROW_PX = 36
_ROUND = 70
"Pixels of a chart beside its rows."
_TEXT, _LINE = 0.72, 0.3
"Heights in a row, from its lower edge."


def ratios(found: Comparison) -> str:
    """A row for each metric and contender: its ratio to the first with the 95 % interval, so turned that what is better
    lies to the right. Green is better, red worse, grey not resolved."""
    rows = list(product(found.metrics, found.others))
    told = {place: found.against(entry, metric) for place, (metric, entry) in enumerate(rows)}
    ends = [end for one in told.values() if one for end in (one.low, one.ratio, one.high) if end]
    # A ratio and its reverse take as much room; an interval of two rounds would leave none to the others.
    widest = min(max([1.2, *(max(end, 1 / end) for end in ends)]), 20.0)
    title = f"Times as good as {found.first.name}, with 95 % intervals"
    height = _ROUND + _ROW_PX * max(len(rows), 1)
    chart = Chart(
        title, Scale.logarithmic([1 / widest, widest]), _rows(len(rows)), (title, ""), height=height, y_ticks=False
    )
    for place, (metric, entry) in enumerate(rows):
        base, one = len(rows) - 1 - place, told[place]
        label = f"{metric.words}: {entry.name}"
        if one is None:
            chart.label(1 / widest, base + _TEXT, f"{label}: can't be told", ink="muted")
            continue
        turned = (
            1 / end if metric.lower_is_better else end
            for end in (one.ratio, one.low or one.ratio, one.high or one.ratio)
        )
        middle, *interval = turned
        better = one.better(metric)
        ink = "grey" if better is None else "green" if better else "rust"
        standings = [found.standing(side, metric) for side in (entry, found.first)]
        medians = " against ".join(metric.shown(side.median) for side in standings if side)
        chart.line([(end, base + _LINE) for end in sorted(interval)], ink, wide=3)
        chart.dots([(middle, base + _LINE, f"{label}: {medians}, ratio {number(one.ratio)}")], ink, radius=5)
        chart.label(1 / widest, base + _TEXT, f"{label}: {medians}")
    chart.mark(1.0, "", "muted")
    for ink, name in (("green", "better"), ("rust", "worse"), ("grey", "not resolved")):
        chart.legend(name, ink, "dot")
    return chart.svg()


def values(found: Comparison, metric: CompareMetric) -> str:
    """A row for each contender: its trials as small dots, their mean with its 95 % interval as a large one."""
    sides = [(entry, found.standing(entry, metric)) for entry in found.entries]
    scale = 2.0**-20 if metric.name == "resident_bytes" else 1.0
    seen = [scale * value for _, one in sides if one for value in one.values]
    if not seen:
        return ""
    positive = min(seen) > 0
    x = Scale.logarithmic(_near(seen, scale, found, metric)) if positive else Scale.linear(seen)
    height = _ROUND + _ROW_PX * len(sides)
    chart = Chart(metric.words, x, _rows(len(sides)), (metric.words, ""), width=480, height=height, y_ticks=False)
    for place, (entry, one) in enumerate(sides):
        base = len(sides) - 1 - place
        if one is None:
            kinds = {trial.failure["kind"] for trial in found.of(entry) if trial.failure}
            chart.label(x.low, base + _TEXT, f"{entry.name}: {', '.join(sorted(kinds)) or 'not told'}", ink="rust")
            continue
        chart.label(x.low, base + _TEXT, f"{entry.name}: median {metric.shown(one.median)}")
        if one.mean.low is not None and one.mean.high is not None:
            chart.line([(scale * end, base + _LINE) for end in (one.mean.low, one.mean.high)], "blue", wide=3)
        chart.dots([(scale * value, base + _LINE, metric.shown(value)) for value in one.values], "ochre", radius=2.5)
        chart.dots([(scale * one.mean.mean, base + _LINE, f"mean {metric.shown(one.mean.mean)}")], "blue", radius=5)
    return chart.svg()


def _near(seen: list[float], scale: float, found: Comparison, metric: CompareMetric) -> list[float]:
    """The values and their intervals' ends, but for ends so far off that the values would fall on one spot."""
    ends = []
    for entry in found.entries:
        one = found.standing(entry, metric)
        ends += [scale * end for end in (one.mean.low, one.mean.high) if end] if one else []
    room = max(max(seen) / min(seen), 1.5)
    return [*seen, *(end for end in ends if min(seen) / room <= end <= max(seen) * room and math.isfinite(end))]


def _rows(count: int) -> Scale:
    return Scale(0.0, float(max(count, 1)))
