"""The trade-off picture: throughput against latency, every trial a dot, the incumbent's path a line. Plain SVG."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.pages.chart import Chart
from autotune.pages.scale import Scale
from autotune.report.facts import Dot

__all__ = ["tradeoff_svg"]

_STYLE = {  # from the hindmost to the foremost: colour, radius, name
    "confirm-B": ("mint", 4.0, "confirmation, candidate"),
    "confirm-A": ("rose", 4.0, "confirmation, baseline"),
    "tried": ("grey", 5.0, "tried"),
    "incumbent": ("green", 6.5, "became the incumbent"),
    "baseline": ("rust", 6.5, "baseline"),
}


def tradeoff_svg(dots: Sequence[Dot], path: Sequence[str], objective: str, bound: float | None) -> str:
    """An SVG 760 px wide. `bound` draws the promise as a dashed line. Both axes are logarithmic.

    Empty where no trial has both numbers.
    """
    shown = [dot for dot in dots if dot.throughput > 0 and dot.latency > 0]
    if not shown:
        return ""
    chart = Chart(
        f"Output throughput against {objective} of every trial",
        Scale.logarithmic([dot.throughput for dot in shown]),
        Scale.logarithmic([dot.latency for dot in shown] + ([bound] if bound else [])),
        ("output tokens/s", objective),
        height=400,
    )
    if bound:
        chart.bound(bound, f"promise: {bound:g}", "muted")
    chart.line(_steps(shown, path), "green", wide=1.5)
    for kind, (ink, radius, name) in _STYLE.items():
        of_it = [_point(dot, objective) for dot in shown if dot.kind == kind]
        chart.dots(of_it, ink, key=name if of_it else "", radius=radius)
    return chart.svg()


def _point(dot: Dot, objective: str) -> tuple[float, float, str]:
    told = f"{dot.id}: {dot.label} | {dot.throughput:.1f} tokens/s, {objective} {dot.latency:.1f}"
    return dot.throughput, dot.latency, told


def _steps(dots: Sequence[Dot], path: Sequence[str]) -> list[tuple[float, float]]:
    """From the baseline over each incumbent in turn."""
    by_id = {dot.id: dot for dot in dots}
    start = next((dot for dot in dots if dot.kind == "baseline"), None)
    steps = [*([start] if start else []), *(by_id[i] for i in path if i in by_id)]
    return [(dot.throughput, dot.latency) for dot in steps]
