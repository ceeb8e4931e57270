"""The page of one load: its numbers with their intervals, the doubts about them, and pictures of its requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from autotune.pages.bench_curves import distribution, ttft_over_time
from autotune.pages.bench_flow import MOST_ROWS, arrivals, in_flight, tokens, waterfall
from autotune.pages.number import number, share
from autotune.pages.render import drawn, render
from autotune.pages.samples import FAMILIES, FAMILY_NAMES, samples_of
from autotune.pages.table import Cell, Table
from tools.measure.dependence import Certainty
from tools.measure.measurement import Measurement
from tools.measure.summary import MIN_SAMPLES_P99, percentile_certainties

__all__ = ["bench_page"]

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_COUNTS = (
    ("request_throughput", "answered requests/s"),
    ("output_throughput", "output tokens/s"),
    ("total_token_throughput", "prompt and output tokens/s"),
    ("request_goodput", "good requests/s"),
    ("slo_attainment", "good requests / offered requests"),
    ("stutter_share", "sequences with a pause over the bound / offered requests"),
    ("mtokens_per_currency", "millions of tokens per currency unit"),
    ("output_mtokens_per_currency", "millions of output tokens per currency unit"),
    ("prefix_hit_rate", "prompt tokens from the server's prefix cache"),
    ("tokens_per_chunk_mean", "tokens per chunk"),
    ("max_itl_ms", "longest gap between tokens, ms"),
)
_SHARES = {"slo_attainment", "stutter_share", "prefix_hit_rate"}


def bench_page(bench: Mapping[str, Any], measurement: Measurement) -> str:
    """One self-contained HTML page.

    `bench` is what `autotune bench --json` prints: flat metrics, `target`, `intervals` ({metric: [low, high]}), `slo`
    ({flat metric: bound}); and, where they were looked for, `doubts` ([{name, invalid, sentence}]), `warm_up_s` (where
    the steady part begins, seconds into the load), `slices` ({by: [{slice: ..., flat metrics}]}) and `lacks` (metrics
    and families that the file it was read from can't tell).
    """
    slo: Mapping[str, float] = bench.get("slo") or {}
    lacks = frozenset(bench.get("lacks") or ())
    told = [family for family in FAMILIES if family not in lacks]
    records = measurement.records
    bound = next((slo[name] for name in ("p99_ttft_ms", "p95_ttft_ms", "p90_ttft_ms") if name in slo), None)
    pictures = [distribution(measurement, family, slo) for family in told]
    flow = [arrivals(measurement), in_flight(measurement), tokens(measurement)] if records else []
    warm_up_s = bench.get("warm_up_s")
    return render(
        "bench.html.jinja",
        target=bench.get("target") or "a server",
        sentence=_sentence(measurement),
        doubts=bench.get("doubts"),
        latencies=_latencies(bench, measurement, lacks),
        promises=_promises(bench, slo),
        counts=_counts(bench),
        distributions=[drawn(picture) for picture in pictures if picture],
        waterfall=drawn(waterfall(measurement)),
        waterfall_caption=_shown(len(records)),
        flow=[drawn(picture) for picture in flow],
        ttft_over_time=drawn(ttft_over_time(measurement, bound, warm_up_s) if "ttft" in told else ""),
        ttft_caption="Requests that failed stand at the top." if measurement.failed else "",
        slices=_slices(bench.get("slices") or {}),
        facts=_facts(bench, measurement),
    )


def _sentence(measurement: Measurement) -> str:
    ended = {"failed": measurement.failed, "timed out": measurement.timed_out}
    others = "".join(f", {count:,} {name}" for name, count in ended.items() if count)
    return (
        f"{measurement.completed:,} of {measurement.offered:,} requests answered{others}; "
        f"{number(measurement.window_s)} s from the start to the last end."
    )


def _shown(requests: int) -> str:
    return (
        f"{MOST_ROWS} of {requests:,} requests, evenly chosen." if requests > MOST_ROWS else f"All {requests} requests."
    )


def _latencies(bench: Mapping[str, Any], measurement: Measurement, lacks: frozenset[str]) -> Table:
    intervals: Mapping[str, Sequence[float]] = bench.get("intervals") or {}
    sure = percentile_certainties(measurement)
    rows = []
    for family in (*FAMILIES, "task"):
        values_ms = samples_of(measurement, family).values_ms if family in FAMILIES else []
        lost = sum(not math.isfinite(value) for value in values_ms)
        cells = [Cell(f"{family} ms", FAMILY_NAMES[family])]
        for statistic in _STATISTICS:
            name = f"{statistic}_{family}_ms"
            value = bench.get(name)
            if value is not None:
                cells.append(_sure(value, intervals.get(name), sure.get(name)))
            elif family in lacks:
                cells.append(Cell("-", why="the file that this was read from doesn't tell"))
            else:
                cells.append(Cell("-", why=_why_absent(statistic, len(values_ms), lost)))
        certainty = sure.get(f"p95_{family}_ms")
        if family in FAMILIES or certainty is not None:
            rows.append((*cells, _sampled(certainty)))
    return Table(("", *_STATISTICS, "samples"), tuple(rows))


def _sure(value: float, interval: Sequence[float] | None, certainty: Certainty | None) -> Cell:
    if interval is not None:
        return Cell(number(value), f"{number(interval[0])} to {number(interval[1])}")
    if certainty is None or certainty.needed_samples <= certainty.samples:
        return Cell(number(value))
    return Cell(number(value), why=f"no 95 % interval: about {certainty.needed_samples:,} samples would have one")


def _sampled(certainty: Certainty | None) -> Cell:
    """How many samples there are, and how many independent ones would tell as much of the P95."""
    if certainty is None:
        return Cell("0")
    fewer = certainty.effective_samples < 0.9 * certainty.samples
    return Cell(f"{certainty.samples:,}", f"worth {certainty.effective_samples:,.0f}" if fewer else "")


def _why_absent(statistic: str, samples: int, unreached: int) -> str:
    if samples == unreached:
        return "no sample: nothing was answered, or nothing with a second token"
    if statistic == "p99" and samples < MIN_SAMPLES_P99:
        return f"{samples} samples; {MIN_SAMPLES_P99} are needed for an interval"
    return f"falls on one of {unreached} requests that failed"


def _promises(bench: Mapping[str, Any], slo: Mapping[str, float]) -> Table | None:
    if not slo:
        return None
    rows = []
    for name, bound in slo.items():
        found = bench.get(name)
        kept = found is not None and found <= bound
        verdict = Cell("kept" if kept else "missed" if found is not None else "can't be told: missed")
        rows.append(
            (Cell(name), Cell(number(bound)), Cell(number(found)), Cell(verdict.text, mood="good" if kept else "bad"))
        )
    return Table(("promise", "bound", "found", ""), tuple(rows))


def _counts(bench: Mapping[str, Any]) -> Table:
    intervals: Mapping[str, Sequence[float]] = bench.get("intervals") or {}
    rows = []
    for name, meaning in _COUNTS:
        value = bench.get(name)
        if value is not None:
            shown = share if name in _SHARES else number
            interval = intervals.get(name)
            span = "" if interval is None else f"{shown(interval[0])} to {shown(interval[1])}"
            rows.append((Cell(name, meaning), Cell(shown(value), span)))
    return Table(("", "value"), tuple(rows))


def _slices(slices: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """A table per way of slicing, its columns those that any of its rows has."""
    tables = []
    for by, rows in slices.items():
        head = list(dict.fromkeys(name for row in rows for name in row))
        body = tuple(tuple(Cell(_cell(row.get(name))) for name in head) for row in rows)
        tables.append(Table(tuple(name.replace("_", " ") for name in head), body, caption=f"by {by}"))
    return tables


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value or "-")


def _facts(bench: Mapping[str, Any], measurement: Measurement) -> list[str]:
    m = measurement
    facts = []
    if math.isfinite(m.started_at):
        facts.append(f"Started {datetime.fromtimestamp(m.started_at, UTC):%Y-%m-%d %H:%M:%S} UTC.")
    if m.workload_digest:
        facts.append(f"Workload {m.workload_digest[:12]}, seed {m.seed}.")
    identity = m.identity_after or m.identity_before
    if identity is not None:
        facts.append(f"Served by {identity.engine}: model {identity.model}.")
    if m.extras:
        facts.append(f"Extensions of the API in force: {', '.join(m.extras)}.")
    if math.isfinite(m.client.cpu_share) and math.isfinite(m.client.send_lag_p99_ms):
        lag = number(m.client.send_lag_p99_ms)
        facts.append(f"The client sent 99 % of the requests within {lag} ms; {m.client.cpu_share:.0%} of a core.")
    facts += [f"Error: {error[:200]}" for error in list(bench.get("errors") or ())[:10]]
    return facts or ["The file that this was read from doesn't tell."]
