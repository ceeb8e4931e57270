"""The page of a capacity plan: replicas over the day, what they cost, and what happens when some are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.pages.capacity_pictures import cost_bars, day_run, promise_used, replicas_over_day, traffic, utilisation
from autotune.pages.number import number, share
from autotune.pages.render import drawn, render
from autotune.pages.table import Cell, Table

__all__ = ["capacity_page"]


def capacity_page(plan: Mapping[str, Any]) -> str:
    """One self-contained HTML page of `CapacityPlan.to_json()`."""
    intervals: Sequence[Mapping[str, Any]] = plan["intervals"]
    costs: Sequence[Mapping[str, Any]] = plan["costs"]
    days: Sequence[Mapping[str, Any]] = plan["days"]
    hours = "hour of the day (UTC)" if plan["traffic"]["clock_known"] else "hours from the beginning of the traffic"
    pictures = [
        replicas_over_day(intervals, hours),
        traffic(intervals, hours),
        utilisation(intervals, hours),
        promise_used(intervals, plan["slo"], hours),
    ]
    return render(
        "capacity.html.jinja",
        hardware=plan["hardware"],
        sentence=_sentence(plan),
        day=[drawn(picture) for picture in pictures if picture],
        costs=_costs(costs, plan.get("currency")),
        cost_bars=drawn(cost_bars(costs, plan["currency"]) if plan.get("currency") else ""),
        headroom=_headroom(plan.get("headroom")),
        degraded=_degraded(plan["degraded"], plan["slo"]),
        days=_days(days),
        day_runs=[(day["name"], drawn(day_run(day))) for day in days if day["points"]],
        policy=_policy(plan["autoscaling"]),
        assumptions=plan["assumptions"],
    )


def _sentence(plan: Mapping[str, Any]) -> str:
    promise = ", ".join(f"{name} ≤ {number(bound)}" for name, bound in plan["slo"].items())
    needed, kept = plan["peak_replicas"], plan["provisioned_replicas"]
    spare = f", {kept:,} with the spare ones" if kept != needed else ""
    return (
        f"{needed:,} replicas hold {promise} at the peak of {number(plan['peak_rps'])} requests/s{spare}; "
        f"balancer: {plan['balancer'].replace('_', ' ')}. {plan['simulated_requests']:,} requests were simulated."
    )


def _costs(costs: Sequence[Mapping[str, Any]], currency: str | None) -> Table | None:
    if not costs:
        return None
    unit = currency or "no prices"
    head = (
        "hardware",
        "peak replicas",
        "GPUs",
        f"a day, by plan ({unit})",
        "a day, always at peak",
        "a million tokens",
    )
    rows = []
    for cost in costs:
        if cost["why_not"]:
            rows.append((Cell(cost["hardware"], cost["why_not"]), *(Cell("-", why=cost["why_not"]) for _ in head[1:])))
            continue
        numbers = ("peak_replicas", "gpus", "per_day", "per_day_static", "per_million_tokens")
        rows.append((Cell(cost["hardware"]), *(Cell(number(cost[name])) for name in numbers)))
    return Table(head, tuple(rows))


def _headroom(headroom: Mapping[str, Any] | None) -> Table | None:
    if headroom is None:
        return None
    short = headroom["hours_to_short"]
    rows = (
        (Cell("needed at the peak"), Cell(f"{headroom['needed']:,}")),
        (Cell("spare"), Cell(f"{headroom['spare']:,}")),
        (Cell("down at any time, mean"), Cell(number(headroom["mean_down"]))),
        (Cell("share of time with enough of them up"), Cell(f"{100 * headroom['share_enough']:.4f} %")),
        (Cell("mean time until too few are up"), Cell("-" if short is None else f"{number(short)} h")),
    )
    return Table(("", "replicas"), rows)


def _degraded(degraded: Sequence[Mapping[str, Any]], slo: Mapping[str, float]) -> Table | None:
    if not degraded:
        return None
    rows = []
    for row in degraded:
        state = Cell("holds", mood="good") if row["holds"] else Cell("misses", mood="warn")
        if not row["stable"]:
            state = Cell("grows without end", mood="bad")
        values = (Cell(number(row["values_ms"].get(name))) for name in slo)
        shed = Cell(share(row["shed_share"]) if row["shed_share"] else "none")
        rows.append(
            (
                Cell(f"{row['missing']:,}"),
                Cell(f"{row['replicas']:,}"),
                state,
                *values,
                shed,
                Cell(number(row["kept_rps"])),
            )
        )
    head = ("missing", "left", "the promise", *slo, "to turn away", "kept, requests/s")
    return Table(head, tuple(rows))


def _days(days: Sequence[Mapping[str, Any]]) -> Table | None:
    if not days:
        return None
    rows = []
    for day in days:
        missed = Cell(share(day["missed_share"]), mood="good" if not day["missed_share"] else "warn")
        numbers = ("missed_minutes", "replica_hours", "most_replicas", "changes")
        rows.append((Cell(day["name"]), missed, *(Cell(number(day[name])) for name in numbers)))
    head = ("scaling", "requests out of promise", "minutes", "replica hours", "most replicas", "changes")
    return Table(head, tuple(rows))


def _policy(policy: Mapping[str, Any]) -> list[str]:
    return [
        f"Between {policy['min_replicas']:,} and {policy['max_replicas']:,} replicas, "
        f"{number(policy['target_in_flight'])} requests in flight each.",
        f"A rise in traffic is answered after {number(policy['reaction_s'])} s (scrape, decision, cold start); within "
        f"that time the day's traffic grows by a factor of at most {number(policy['growth'])}.",
        f"Down only after {number(policy['scale_down_window_s'])} s of lower need.",
    ]
