"""The page of a calibration: what a server's service curve foretells, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from autotune.pages.chart import Chart
from autotune.pages.number import number, share
from autotune.pages.points import Point
from autotune.pages.render import drawn, render
from autotune.pages.samples import FAMILY_NAMES
from autotune.pages.scale import Scale
from autotune.pages.table import Cell, Table
from tools.service.curve import ServiceCurve

__all__ = ["calibration_page"]

_LINES = {"p99": "violet", "p95": "blue", "p50": "green"}
_JUDGED = ("p50_ttft_ms", "p95_ttft_ms", "p50_itl_ms", "p95_itl_ms", "p95_e2el_ms")


def calibration_page(calibration: Mapping[str, Any]) -> str:
    """One self-contained HTML page of `ServiceCalibration.to_json()`."""
    curve = ServiceCurve.from_json(calibration["curve"])
    pictures = [(family, _against_rate(calibration, family)) for family in ("ttft", "itl", "e2el")]
    return render(
        "calibration.html.jinja",
        target=calibration["target"],
        model=calibration["model"],
        doubts=calibration.get("doubts"),
        answers=_answers(calibration),
        against_rate=[(FAMILY_NAMES[family], drawn(picture)) for family, picture in pictures if picture],
        steps=drawn(_steps(curve)),
        residuals=_residuals(calibration["points"]),
        parameters=_parameters(curve),
        cost=_cost(calibration),
    )


def _against_rate(calibration: Mapping[str, Any], family: str) -> str:
    """Predicted percentiles of `family` over the rate with the spread between seeds, and the measured points."""
    predictions: Sequence[Mapping[str, Any]] = calibration["predictions"]
    points: Sequence[Mapping[str, Any]] = calibration["points"]
    names = {statistic: f"{statistic}_{family}_ms" for statistic in _LINES}
    foretold = {s: _curve(predictions, name) for s, name in names.items()}
    measured = {s: [p for p in points if name in p["summary"]] for s, name in names.items()}
    bounds = {name: bound for name, bound in (calibration.get("slo") or {}).items() if name.endswith(f"_{family}_ms")}
    heights = [y for _, y in chain.from_iterable(foretold.values())]
    heights += [point["summary"][names[s]] for s, found in measured.items() for point in found]
    if not heights:
        return ""
    rates = [prediction["rate_rps"] for prediction in predictions] + [point["rate_rps"] for point in points]
    title = f"{FAMILY_NAMES[family]} against the rate, predicted and measured"
    y = Scale.logarithmic([*heights, *bounds.values()])
    chart = Chart(
        title, Scale.span([*rates, calibration["capacity_rps"]]), y, ("requests/s", f"{family}, ms"), height=330
    )
    for statistic, ink in _LINES.items():
        name = names[statistic]
        chart.band(_curve(predictions, f"low_{name}"), _curve(predictions, f"high_{name}"), ink)
    for statistic, ink in _LINES.items():
        chart.line(foretold[statistic], ink, key=f"{statistic}, predicted" if foretold[statistic] else "", wide=2.0)
        for held_out, radius in ((False, 3.4), (True, 5.0)):
            dots = [_dot(point, names[statistic]) for point in measured[statistic] if point["held_out"] is held_out]
            chart.dots(dots, ink, radius=radius)
    if any(measured.values()):
        chart.legend("measured (large: held out)", "muted", "dot")
    for name, bound in sorted(bounds.items()):
        chart.bound(bound, f"promise: {name.split('_', 1)[0]} {number(bound)} ms")
    chart.mark(calibration["capacity_rps"], f"capacity {number(calibration['capacity_rps'])}", "grey", row=0)
    chart.mark(calibration["knee_rps"], f"knee {number(calibration['knee_rps'])}", "ochre", row=1)
    best = calibration.get("best_rate")
    if best and best.get("rate_rps"):
        chart.mark(best["rate_rps"], f"best rate {number(best['rate_rps'])}", "green", row=2)
    return chart.svg()


def _curve(predictions: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
    found = [(float(p["rate_rps"]), float(p[name])) for p in predictions if p.get(name) is not None]
    return sorted(found)


def _dot(point: Mapping[str, Any], name: str) -> tuple[float, float, str]:
    value = point["summary"][name]
    how = "held out" if point["held_out"] else "in the fit"
    told = f"{number(point['rate_rps'])} requests/s: {name} {number(value)}, {point['requests']} requests, {how}"
    return point["rate_rps"], value, told


def _steps(curve: ServiceCurve) -> str:
    most = max(*(count for count, _ in curve.steps), float(curve.seats), 1.0)
    line = [(count, 1000 * curve.step_s(count)) for count in (1 + index * (most - 1) / 80 for index in range(81))]
    dots = [(count, 1000 * s, f"{number(count)} sequences: {number(1000 * s)} ms") for count, s in curve.steps]
    y = Scale.linear([ms for _, ms in line] + [ms for _, ms, _ in dots])
    names = ("sequences decoding together", "step, ms")
    chart = Chart("Time of a decode step against the sequences that share it", Scale.span([most]), y, names, height=240)
    chart.line(line, "blue", key="step time")
    chart.dots(dots, "blue", key="fitted points", radius=3.4)
    chart.mark(float(curve.seats), f"{curve.seats} seats", "ochre")
    return chart.svg()


def _answers(calibration: Mapping[str, Any]) -> Table:
    best = calibration.get("best_rate")
    rows = [
        (Cell("capacity", "more than that can't be served for long"), Cell(f"{number(calibration['capacity_rps'])}/s")),
        (Cell("knee", "from there on the tail of the TTFT grows fast"), Cell(f"{number(calibration['knee_rps'])}/s")),
    ]
    if best:
        rate = best.get("rate_rps")
        rows.append(
            (Cell("best rate under the promise", str(best["reason"])), Cell(f"{number(rate)}/s" if rate else "-"))
        )
    return Table(("", "requests per second"), tuple(rows))


def _residuals(points: Sequence[Mapping[str, Any]]) -> Table:
    """Measured, predicted and the error of each point, for the metrics that any of them has."""
    told = [name for name in _JUDGED if any(name in p["summary"] and name in p.get("predicted", {}) for p in points)]
    rows = []
    for point in sorted(points, key=lambda p: p["rate_rps"]):
        how = "held out" if point["held_out"] else "in the fit"
        cells = [Cell(f"{number(point['rate_rps'])}/s", how), Cell(f"{point['requests']:,}")]
        cells += [_residual(point["summary"].get(name), point.get("predicted", {}).get(name)) for name in told]
        rows.append(tuple(cells))
    return Table(("rate", "requests", *told), tuple(rows), caption="measured, and below it what was predicted")


def _residual(seen: float | None, foretold: float | None) -> Cell:
    if not seen or foretold is None:
        return Cell(number(seen), why="nothing to compare with")
    error = foretold / seen - 1
    return Cell(number(seen), f"{number(foretold)} ({error:+.1%})", mood="bad" if abs(error) > 0.15 else "")


def _parameters(curve: ServiceCurve) -> Table:
    rows = (
        (Cell("seats", "sequences served at once"), Cell(f"{curve.seats:,}")),
        (Cell("overhead", "of each request, before its prompt is read"), Cell(f"{number(1000 * curve.overhead_s)} ms")),
        (
            Cell("prefill", "per prompt token that no cache holds"),
            Cell(f"{number(1e6 * curve.prefill_s_per_token)} µs"),
        ),
        (Cell("prompt", "uncached tokens of a request, mean"), Cell(number(curve.prompt_tokens))),
        (Cell("output", "tokens of a request, mean"), Cell(number(curve.output_tokens))),
    )
    return Table(("", "value"), rows)


def _cost(calibration: Mapping[str, Any]) -> str:
    sent, seconds = calibration.get("requests_sent"), calibration.get("seconds")
    if sent is None or seconds is None:
        return ""
    held_out = sum(point["requests"] for point in calibration["points"] if point["held_out"])
    total = f"{sent:,} requests in {seconds / 60:.1f} min"
    return (
        f"{total}; {held_out:,} of them at rates that the fit hadn't seen ({share(held_out / sent if sent else None)})."
    )
