"""Pictures of a capacity plan over the day, in hours. `hours` names their axis: times of day, or offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.pages.chart import Chart
from autotune.pages.number import number
from autotune.pages.points import Point
from autotune.pages.scale import Scale

__all__ = ["cost_bars", "day_run", "promise_used", "replicas_over_day", "traffic", "utilisation"]

_INKS = ("blue", "green", "ochre", "violet", "rust", "grey")

Interval = Mapping[str, Any]


def replicas_over_day(intervals: Sequence[Interval], hours: str) -> str:
    """Replicas needed for the promise, and provisioned."""
    needed, provisioned = _steps(intervals, "needed"), _steps(intervals, "provisioned")
    y = Scale.linear([count for _, count in (*needed, *provisioned)])
    chart = Chart("Replicas over the day", _hours(needed), y, (hours, "replicas"))
    chart.area(needed, "blue", key="needed")
    chart.step(provisioned, "green", key="with spare ones for failures")
    return chart.svg()


def traffic(intervals: Sequence[Interval], hours: str) -> str:
    """The rate that each interval is planned for, and its mean."""
    planned, mean = _steps(intervals, "rate_rps"), _steps(intervals, "mean_rps")
    y = Scale.linear([rate for _, rate in (*planned, *mean)])
    chart = Chart("Traffic over the day", _hours(planned), y, (hours, "requests/s"), height=220)
    chart.area(mean, "grey", key="mean")
    chart.step(planned, "blue", key="planned for")
    return chart.svg()


def utilisation(intervals: Sequence[Interval], hours: str) -> str:
    """Work over what the needed replicas can do."""
    used = _steps(intervals, "utilisation")
    y = Scale(0.0, max(1.0, Scale.linear([value for _, value in used]).high))
    chart = Chart(
        "Utilisation of the needed replicas over the day", _hours(used), y, (hours, "utilisation"), height=200
    )
    chart.area(used, "ochre", key="utilisation")
    return chart.svg()


def promise_used(intervals: Sequence[Interval], slo: Mapping[str, float], hours: str) -> str:
    """Each promised metric as a share of its bound, as simulated."""
    lines: dict[str, list[Point]] = {}
    for name, bound in slo.items():
        found = [i for i in intervals if i["values_ms"].get(name) is not None]
        if found:
            scaled = [{**i, "share": i["values_ms"][name] / bound} for i in found]
            lines[name] = _steps(scaled, "share")
    if not lines:
        return ""
    y = Scale.linear([1.0, *(value for line in lines.values() for _, value in line)])
    x = _hours([point for line in lines.values() for point in line])
    chart = Chart("Promised metrics as a share of their bounds", x, y, (hours, "share of the bound"), height=220)
    for ink, (name, line) in zip(_INKS * len(lines), lines.items(), strict=False):
        chart.step(line, ink, key=name)
    chart.bound(1.0, "promise")
    return chart.svg()


def day_run(day: Mapping[str, Any]) -> str:
    """Replicas needed and ready over a simulated day under one autoscaler."""
    needed = [(point[0] / 3600, float(point[2])) for point in day["points"]]
    ready = [(point[0] / 3600, float(point[3])) for point in day["points"]]
    y = Scale.linear([count for _, count in (*needed, *ready)])
    title = f"Replicas needed and ready over a simulated day, {day['name']}"
    chart = Chart(title, _hours(needed), y, ("hours into the day", "replicas"), width=480, height=240)
    chart.area(needed, "blue", key="needed")
    chart.step(ready, "rust", key="ready")
    return chart.svg()


def cost_bars(costs: Sequence[Mapping[str, Any]], currency: str) -> str:
    """What a day costs on each hardware: by the plan, and with the peak's replicas all day. Cheapest first."""
    priced = [cost for cost in costs if cost["per_day"] is not None]
    if not priced:
        return ""
    priced.sort(key=lambda cost: cost["per_day"])
    x = Scale.linear(
        [value for cost in priced for value in (cost["per_day"], cost["per_day_static"]) if value is not None]
    )
    rows = len(priced)
    names = (f"{currency} a day", "")
    chart = Chart(
        "Cost of a day on each hardware", x, Scale(0.0, float(rows)), names, height=70 + 62 * rows, y_ticks=False
    )
    for row, cost in enumerate(priced):
        top = rows - row
        chart.label(x.low, top - 0.2, cost["hardware"])
        bars = (
            (cost["per_day"], 0.38, "blue", "replicas by plan"),
            (cost["per_day_static"], 0.66, "grey", "always at peak"),
        )
        for value, below, ink, key in bars:
            if value is not None:
                title = f"{cost['hardware']}, {key}: {number(value)} {currency} a day"
                chart.box((x.low, value), (top - below - 0.22, top - below), ink, title=title)
                chart.legend(key, ink, "box")
    return chart.svg()


def _steps(intervals: Sequence[Interval], name: str) -> list[Point]:
    """A point at the start of each interval and one at the end of the last."""
    found = [(interval["start_s"] / 3600, float(interval[name])) for interval in intervals]
    if found:
        length = found[-1][0] - found[-2][0] if len(found) > 1 else 1.0
        found.append((found[-1][0] + length, found[-1][1]))
    return found


def _hours(points: Sequence[Point]) -> Scale:
    """Marks every three hours where it is about a day."""
    hours = [hour for hour, _ in points]
    low, high = min(hours, default=0.0), max(hours, default=24.0)
    step = 3.0 if 9 < high - low < 30 else None
    return Scale(low, high if high > low else low + 1.0, step=step)
