"""A service calibration as tables on the terminal, and as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from autotune.console import duration, out
from tools.service import ServiceCalibration

__all__ = ["show", "write"]

_SHOWN = ("p50_ttft_ms", "p95_ttft_ms", "p50_itl_ms", "p95_itl_ms", "p95_e2el_ms")


def write(found: ServiceCalibration, data: Path | None, page: Path | None) -> None:
    """The calibration as JSON and as a page, each complete or not there.

    Raises:
        UserError: the folder can't be written to.
    """
    from tools.whole_file import replaced

    if data is not None:
        with replaced(data) as file:
            file.write((json.dumps(found.to_json(), indent=1) + "\n").encode())
    if page is not None:
        from autotune.pages import calibration_page

        with replaced(page) as file:
            file.write(calibration_page(found.to_json()).encode())


def show(found: ServiceCalibration) -> None:
    """Print what was found to stdout."""
    _show_curve(found)
    _show_predictions(found)
    _show_points(found)
    out.print(f"capacity: {found.capacity_rps:.3g} per second; more only grows a queue")
    out.print(f"knee: {found.knee_rps:.3g} per second; above it most of a P95 TTFT is waiting")
    if found.best_rate is not None:
        promise = ", ".join(f"{name} <= {bound:g}" for name, bound in found.slo.items())
        rate = found.best_rate.rate_rps
        told = "none" if rate is None else f"{rate:.3g} per second"
        out.print(f"best rate under {promise}: {told} ({escape(found.best_rate.reason)})")
    out.print(f"{found.requests_sent} requests in {duration(found.seconds)}")
    for doubt in found.doubts:
        out.print(f"doubt: {escape(str(doubt))}")


def _show_curve(found: ServiceCalibration) -> None:
    curve = found.curve
    limit = "" if found.fit.seats_are_a_limit else " or more"
    steps = ", ".join(f"{1000 * step_s:.1f} ms for {count:.0f}" for count, step_s in (curve.steps[0], curve.steps[-1]))
    out.print(
        f"{escape(found.target)}, {escape(found.model)}: {curve.seats}{limit} sequences at once; a request costs "
        f"{1000 * curve.overhead_s:.1f} ms and {1e6 * curve.prefill_s_per_token:.0f} µs a prompt token, a step {steps}"
    )


def _show_predictions(found: ServiceCalibration) -> None:
    table = Table("rate/s", *_SHOWN, title="predicted", title_justify="left")
    for prediction in found.predictions:
        table.add_row(f"{prediction.rate_rps:.3g}", *_cells(prediction.metrics))
    out.print(table)


def _show_points(found: ServiceCalibration) -> None:
    table = Table("rate/s", "requests", *_SHOWN, "P95 TTFT predicted", title="measured", title_justify="left")
    for point in found.points:
        error = point.error("p95_ttft_ms")
        told = "-" if error is None else f"{error:+.0%}{' (before the load)' if point.held_out else ''}"
        table.add_row(f"{point.rate_rps:.3g}", str(point.requests), *_cells(point.summary), told)
    out.print(table)


def _cells(metrics: Mapping[str, float]) -> list[str]:
    return [f"{metrics[name]:.1f}" if name in metrics else "-" for name in _SHOWN]
