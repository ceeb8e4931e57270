"""Showing a bench on a terminal: the numbers, how sure they are, and what speaks against them."""

from __future__ import annotations

import math

from rich.markup import escape
from rich.table import Table

from autotune.bench.result import Bench, BenchTrial
from autotune.console import out
from tools.measure.resolve import Plan

__all__ = ["resolved", "show"]

_LATENCIES = ("ttft", "tpot", "itl", "e2el", "task")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_RATES = (
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "request_goodput",
    "slo_attainment",
    "stutter_share",
    "prefix_hit_rate",
)


def show(bench: Bench) -> None:
    """Print `bench` to stdout."""
    trials = bench.trials
    out.print(_table(bench))
    for name in _RATES:
        if name in bench.replicated:
            out.print(f"{name}: {bench.replicated[name].mean:.3f}{_span(bench, name, 3)}")
    for name, value in bench.tokens_per_price().items():
        out.print(f"{name}: {value:.4g} millions of tokens per currency unit")
    if bench.plan is not None:
        out.print(f"resolve: {resolved(bench.metric, len(bench.counted), bench.plan)}")
    client = bench.shown.measurement.client
    out.print(f"client: send lag p99 {client.send_lag_p99_ms:.2f} ms, {client.cpu_share:.0%} of a core")
    if bench.floor is not None:
        out.print(f"client's floor: {bench.floor}")
    for number, trial in enumerate(trials, start=1):
        prefix = f"trial {number}: " if len(trials) > 1 else ""
        for doubt in trial.doubts:
            out.print(f"[{'red' if doubt.invalid else 'yellow'}]doubt[/]: {escape(prefix + str(doubt))}")
        for error in sorted({record.error for record in trial.measurement.records if record.error})[:5]:
            out.print(f"error: {escape(prefix + error)}")
    for miss in bench.shown.slo.misses({name: found.mean for name, found in bench.replicated.items()}):
        out.print(f"[red]out of SLO[/]: {escape(str(miss))}")
    if bench.ended_early:
        out.print(f"[yellow]ended early[/]: {escape(bench.ended_early)}")
    if not bench.valid:
        out.print("[red]INVALID[/]: these numbers aren't the server's; see the doubts")


def resolved(metric: str, trials: int, plan: Plan) -> str:
    """What one side's trials can tell, once there is another side of as many."""
    noise = f"trials of {metric} differ by {plan.noise:.1%} (standard deviation, {trials} trials)"
    if plan.feasible and trials >= plan.trials_per_side:
        return (
            f"{noise}: against another side of {trials} trials, a difference of {plan.promised_half_width:.1%} shows, "
            f"and one of {plan.effect:.1%} is seen with {plan.power:.0%} chance"
        )
    if plan.feasible:
        to_go = plan.trials_per_side - trials
        minutes = plan.seconds / plan.further_trials * to_go / 60
        return (
            f"{noise}: {plan.trials_per_side} trials a side resolve {plan.promised_half_width:.1%}; "
            f"{to_go} to go on this side, {minutes:.1f} min"
        )
    allowed = f"{plan.trials_per_side} trials a side, all that it allows, resolve {plan.promised_half_width:.1%}"
    if math.isinf(plan.promised_half_width):
        allowed = "it allows fewer than two trials a side, which resolve nothing"
    return (
        f"{noise}: the budget can't resolve {plan.effect:.1%}, which takes about {plan.needed_trials_per_side} trials "
        f"a side; {allowed}. "
        "Give more --budget, longer loads, or a quieter machine"
    )


def _table(bench: Bench) -> Table:
    table = Table("", *_STATISTICS, title_justify="left")
    table.title = f"{bench.target}: {_answered(bench.shown)}"
    if len(bench.trials) > 1:
        counted = f"{len(bench.counted)} of {len(bench.trials)} trials count"
        table.title = f"{bench.target}: {counted}, their means ± 95 % between trials"
    digits = 1
    for family in _LATENCIES:
        names = [f"{statistic}_{family}_ms" for statistic in _STATISTICS]
        if not any(name in bench.replicated for name in names):
            continue
        table.add_row(f"{family} ms", *(_cell(bench, name, digits) for name in names))
    return table


def _answered(trial: BenchTrial) -> str:
    return f"{trial.measurement.completed} of {trial.measurement.offered} requests answered"


def _cell(bench: Bench, name: str, digits: int) -> str:
    if name not in bench.replicated:
        return "-"
    return f"{bench.replicated[name].mean:.{digits}f}\n{_span(bench, name, digits).strip()}".rstrip()


def _span(bench: Bench, name: str, digits: int) -> str:
    """The 95 % interval in brackets: between trials, or within the only one; empty where it can't be told."""
    if len(bench.trials) > 1:
        found = bench.replicated[name]
        low, high = found.low, found.high
    else:
        interval = bench.shown.intervals.get(name)
        low, high = (interval.low, interval.high) if interval else (None, None)
    return f" [dim]{low:.{digits}f}..{high:.{digits}f}[/]" if low is not None and high is not None else ""
