"""A capacity plan as tables on the terminal, and as files in a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from autotune.console import out
from tools.capacity import CapacityPlan, Cost, Traffic, Workplace
from tools.errors import UserError

__all__ = ["show", "write"]


def show(plan: CapacityPlan) -> None:
    """Print the plan to stdout."""
    _show_day(plan)
    if plan.headroom is not None:
        room = plan.headroom
        out.print(
            f"failures: {room.spare} spare at the peak keep {room.needed} of {room.replicas} up "
            f"{room.share_enough:.4%} of the time; {room.mean_down:.2f} are down on average"
        )
    _show_degraded(plan)
    _show_costs(plan)
    _show_autoscaling(plan)
    for assumption in plan.assumptions:
        out.print(f"assumed: {escape(assumption)}", style="dim")


def write(plan: CapacityPlan, place: Workplace, folder: Path) -> None:
    """`plan.json`, `plan.html` and the manifests, each complete or not there.

    Raises:
        UserError: the folder can't be written to.
    """
    from autotune.pages import capacity_page

    title = f"Autoscaling of {plan.hardware}, planned by autotune capacity for {plan.traffic.source}."
    files = {
        "plan.json": json.dumps(plan.to_json(), indent=1) + "\n",
        "plan.html": capacity_page(plan.to_json()),
        **plan.policy.manifests(place, title),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            draft = folder / f".{name}.{os.getpid()}.part"
            draft.write_text(text, encoding="utf-8")
            draft.replace(folder / name)
    except OSError as error:
        raise UserError(f"--out {folder}: expected a folder to write to: {error.strerror}") from None


def _show_day(plan: CapacityPlan) -> None:
    promise = ", ".join(f"{name} <= {bound:g} ms" for name, bound in plan.slo.items())
    begins = "from (UTC)" if plan.traffic.clock_known else "offset"
    table = Table(begins, "requests/s", "needed", "with spares", "load", *plan.slo, title_justify="left")
    table.title = f"{plan.hardware}: replicas over the day for {promise}"
    for interval in plan.intervals:
        table.add_row(
            _moment(interval.start_s, plan.traffic),
            f"{interval.rate_rps:.2f}",
            str(interval.needed),
            str(interval.provisioned),
            f"{interval.utilisation:.0%}",
            *(_number(interval.values_ms.get(name)) for name in plan.slo),
            style="bold" if interval == plan.peak else "",
        )
    out.print(table)


def _show_degraded(plan: CapacityPlan) -> None:
    table = Table("missing", "replicas", *plan.slo, "promise", "turn away", title_justify="left")
    table.title = "At the peak, while replicas are missing"
    for row in plan.degraded:
        promise = "kept" if row.holds else "missed" if row.stable else "missed: the queue never ends"
        cells = [_number(row.values_ms.get(name)) for name in plan.slo]
        table.add_row(str(row.missing), str(row.replicas), *cells, promise, f"{row.shed_share:.1%}")
    out.print(table)


def _show_costs(plan: CapacityPlan) -> None:
    money = plan.currency or ""
    table = Table("hardware", "replicas", "GPUs", f"{money}/day", f"{money}/day, peak all day", title_justify="left")
    table.add_column(f"{money}/million tokens")
    table.add_column(f"{money}/million output tokens")
    table.title = "Choices"
    if plan.currency is None and all(cost.why_not is None for cost in plan.costs) and len(plan.costs) == 1:
        return
    for cost in plan.costs:
        if cost.why_not is None:
            table.add_row(*_cells(cost), style="bold" if cost.hardware == plan.hardware else "")
    out.print(table)
    for cost in plan.costs:
        if cost.why_not is not None:
            out.print(f"not {escape(cost.hardware)}: {escape(cost.why_not)}")


def _cells(cost: Cost) -> tuple[str, ...]:
    money = (cost.per_day, cost.per_day_static, cost.per_million_tokens, cost.per_million_output_tokens)
    counts = ("-" if count is None else str(count) for count in (cost.peak_replicas, cost.gpus))
    return (escape(cost.hardware), *counts, *(_number(amount) for amount in money))


def _show_autoscaling(plan: CapacityPlan) -> None:
    policy = plan.policy
    rules = policy.rules
    out.print(
        f"autoscaling: {rules.least} to {rules.most} replicas at {rules.target:g} requests in flight each; traffic "
        f"grows at most {policy.growth:.2f}-fold in the {policy.reaction_s:.0f} s that a new replica takes"
    )
    table = Table("policy", "requests in missed time", "minutes missed", "replica hours", "most", title_justify="left")
    table.title = "The day under each policy, failures included"
    for day in plan.days:
        table.add_row(
            day.name,
            f"{day.missed_share:.2%}",
            f"{day.missed_minutes:.0f}",
            f"{day.replica_hours:.1f}",
            str(day.most_replicas),
        )
    out.print(table)
    _show_rehearsals(plan)


def _show_rehearsals(plan: CapacityPlan) -> None:
    first = plan.rehearsals[0]
    table = Table("policy", "ready", *plan.slo, "promise", "failures", "sent anew", title_justify="left")
    begin = _moment(first.begin_s, plan.traffic)
    table.title = (
        f"The steepest part, every request simulated: {first.length_s / 60:.0f} min from {begin}, "
        f"{first.from_rps:.3g} to {first.to_rps:.3g} requests/s"
        + (f", in a fleet {first.scale:.3g} times smaller" if first.scale > 1 else "")
    )
    for row in plan.rehearsals:
        ready = f"{row.least_ready} to {row.most_ready}"
        values = (_number(row.values_ms[name]) for name in plan.slo)
        table.add_row(row.name, ready, *values, "kept" if row.holds else "missed", str(row.failures), str(row.retried))
    out.print(table)


def _moment(seconds: float, traffic: Traffic) -> str:
    """A time of day, 14:30, or an offset, +14:30."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours % 24:02d}:{minutes:02d}" if traffic.clock_known else f"+{hours:02d}:{minutes:02d}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
