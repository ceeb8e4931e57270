"""Rows about the load generator itself: `peers`, `truth`, `chunk_rate`, `schedule`.

Each runs against a mock server on one core with the client on another, so that neither takes the other's time.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generators import GENERATORS, Closed, Run, mock_on
from benchmarks.peers import Unmeasurable
from tools.measure import RequestRecord, WorkloadSpec, materialise
from tools.measure.client import drive
from tools.measure.dialect import Dialect
from tools.measure.load import LoadResult
from tools.measure.mock import FLOOD
from tools.measure.self_calibration import true_times
from tools.targets.target import Endpoint

__all__ = ["chunk_rate", "peers_agree", "schedule", "truth"]

Row = dict[str, Any]
PLAIN = Dialect(("ignore_eos", "temperature"))

COMPARED = ("median_ttft_ms", "median_itl_ms", "median_tpot_ms", "median_e2el_ms", "output_throughput")
PEERS = ("vllm", "guidellm", "aiperf")
THEIR_OWN = {
    ("guidellm", "median_itl_ms"): "median_tpot_ms",
    ("guidellm", "median_tpot_ms"): "e2el_per_token",
}
"""What a peer's number is compared with where it is another one under that name (benchmark-definitions C1)."""


def cores() -> tuple[set[int], set[int]]:
    """One core for the mock, one for the client."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Unmeasurable("client and mock need a core each")
    return {allowed[0]}, {allowed[1]}


def peers_agree(quick: bool = False) -> Row:
    """Every generator against the same mock at a few percent of a core; medians against ours, mapped where a name means
    something else."""
    load = Closed(users=8, requests=64 if quick else 160, output_tokens=64)
    mock_core, client_core = cores()
    found: dict[str, Run] = {}
    with tempfile.TemporaryDirectory() as folder, mock_on(mock_core, "--plain", ttft_ms=80, itl_ms=20) as endpoint:
        for name in ("autotune", *(() if quick else PEERS)):
            found[name] = GENERATORS[name](endpoint, load, Path(folder), client_core)
    known = {**found["autotune"].reported, "e2el_per_token": found["autotune"].reported["median_e2el_ms"] / 64}
    differences = {
        name: {metric: _difference(run.reported, metric, known, name) for metric in COMPARED}
        for name, run in found.items()
        if name != "autotune"
    }
    worst = max((abs(value) for each in differences.values() for value in each.values()), default=None)
    return {
        "value": None if worst is None else round(worst, 4),
        "goal": "within 0.03, or explained in docs/measuring.md",
        "ok": None if worst is None else worst <= 0.03,
        "differences": differences,
        "ours": {metric: round(known[metric], 2) for metric in COMPARED},
        "cpu_share": {name: round(run.cpu_s / max(run.wall_s, 1e-9), 3) for name, run in found.items()},
        "note": "cpu_share counts the start of the program too",
    }


def _difference(reported: Mapping[str, float], metric: str, ours: Mapping[str, float], name: str) -> float:
    mapped = ours[THEIR_OWN.get((name, metric), metric)]
    return round(reported[metric] / mapped - 1, 4)


def truth(quick: bool = False, pairs: int = 3) -> Row:
    """1,000 streams, some 500 of them at once: what the client saw against what the mock did; medians of some runs.

    Requests that were sent while the mock itself stood still (it sent nothing for over 3 ms, where 12 chunks a
    millisecond are due) are left out, since its truth is wrong then: on a virtual machine the host takes the cores away
    now and then. How many that were, and the errors with them, stand beside it.
    """
    streams, mock_core, client_core = 200 if quick else 1000, *cores()
    without, with_them, left_out = [], [], []
    for _ in range(1 if quick else pairs):
        with mock_on(mock_core, ttft_ms=100, itl_ms=40) as endpoint:
            load = _driven(endpoint, streams, 50, {"kind": "poisson", "rate_rps": 250}, client_core, Dialect())
            true = true_times(endpoint)
        # Both lists are in the order of sending, and both clocks are one.
        seen = sorted(load.records, key=lambda record: record.sent_s)
        stalls = _stalls([sent_s for _, sent_s in true])
        kept = [place for place, (received_s, _) in enumerate(true) if not _within(received_s, stalls)]
        without.append(_errors_ms([seen[place] for place in kept], [true[place] for place in kept]))
        with_them.append(_errors_ms(seen, true))
        left_out.append(len(true) - len(kept))
    value = {name: statistics.median(run[name][0] for run in without) for name in without[0]}
    allowed = {name: statistics.median(run[name][1] for run in without) for name in value}
    return {
        "value": value,
        "goal": "each within max(1 ms, 2 %)",
        "ok": all(abs(value[name]) <= allowed[name] for name in value),
        "allowed_ms": allowed,
        "each": [{name: error for name, (error, _) in run.items()} for run in without],
        "left_out": left_out,
        "with_them": [{name: error for name, (error, _) in run.items()} for run in with_them],
        "streams": streams,
        "cpu_share": round(load.client.cpu_share, 3),
    }


True_ = tuple[float, list[float]]


def _errors_ms(seen: Sequence[RequestRecord], true: Sequence[True_]) -> dict[str, tuple[float, float]]:
    """(client's percentile - mock's, what is allowed) by name, in milliseconds."""
    columns = {
        "ttft": ([r.token_times_s[0] - r.sent_s for r in seen], [sent_s[0] - at_s for at_s, sent_s in true]),
        "itl": (
            np.concatenate([np.diff(record.token_times_s) for record in seen]),
            np.concatenate([np.diff(sent_s) for _, sent_s in true]),
        ),
    }
    found = {}
    for name, (client, server) in columns.items():
        for share in (50, 99):
            real_ms = 1000 * float(np.percentile(server, share))
            error_ms = 1000 * float(np.percentile(client, share)) - real_ms
            found[f"p{share}_{name}"] = (round(error_ms, 3), round(max(1.0, 0.02 * real_ms), 3))
    return found


def _stalls(sent_s: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """When the mock sent nothing for over 3 ms while many streams ran: not in the ramps at both ends."""
    moments = sorted(at_s for times_s in sent_s for at_s in times_s)
    first_s, last_s = moments[0] + 0.5, moments[-1] - 2.5
    return [(a, b) for a, b in pairwise(moments) if b - a > 0.003 and first_s < a and b < last_s]


def _within(at_s: float, stalls: Sequence[tuple[float, float]]) -> bool:
    """Whether a request received at `at_s` may have waited for a stall to end, or for what had piled up in it."""
    return any(start_s - 0.002 <= at_s <= end_s + (end_s - start_s) + 0.005 for start_s, end_s in stalls)


def chunk_rate(quick: bool = False, pairs: int = 3) -> Row:
    """Chunks that one core can take in a second when each comes by itself, as streams have it: 200 streams of 50
    tokens/s. The CPU time of all the client's processes, a long load's less a short one's, so that starting up isn't
    counted; medians of interleaved runs (the slow peers once).

    Beside it a flood, in which many chunks come in one read: nobody measures streams like that, but it is the most that
    each can parse.
    """
    mock_core, client_core = cores()
    names = ("autotune",) if quick else tuple(GENERATORS)
    slow = ("guidellm", "aiperf")
    rates: dict[str, list[float]] = {name: [] for name in names}
    floods: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, mock_on(mock_core, "--plain", ttft_ms=20, itl_ms=20) as endpoint:
        for number in range(1 if quick else pairs):
            for name in (name for name in names if not number or name not in slow):
                short, long = (
                    GENERATORS[name](
                        endpoint, Closed(200, 200 * times, 200), _folder(folder, number, times), client_core
                    )
                    for times in (1, 3)
                )
                rates[name].append((long.chunks - short.chunks) / (long.cpu_s - short.cpu_s))
        for name in names:
            requests = 16 if quick or name in slow else 128
            place = _folder(folder, "flood", requests)
            run = GENERATORS[name](replace(endpoint, model=FLOOD), Closed(16, requests, 2000), place, client_core)
            floods[name] = round(run.chunks / run.wall_s)
    medians = {name: round(statistics.median(found)) for name, found in rates.items()}
    best = max((rate for name, rate in medians.items() if name != "autotune"), default=None)
    ratio = None if best is None else round(medians["autotune"] / best, 2)
    return {
        "value": ratio,
        "goal": "at least 2 times the best peer",
        "ok": None if ratio is None else ratio >= 2,
        "chunks_per_core_s": medians,
        "all": {name: [round(rate) for rate in found] for name, found in rates.items()},
        "flood_chunks_per_s": floods,
    }


def _folder(*parts: object) -> Path:
    place = Path(*map(str, parts))
    place.mkdir(parents=True, exist_ok=True)
    return place


def schedule(quick: bool = False, pairs: int = 3) -> Row:
    """An open loop that brings 80 % of the chunks that our client can take: is every request sent when it is due?"""
    mock_core, client_core = cores()
    tokens = 100
    results = []
    with mock_on(mock_core, "--plain", ttft_ms=1, itl_ms=0) as endpoint:
        flood = replace(endpoint, model=FLOOD)
        for _ in range(1 if quick else pairs):
            burst = _driven(flood, 400, tokens, {"kind": "closed", "concurrency": 16}, client_core, PLAIN)
            most = _chunks(burst) / burst.window_s
            rate = 0.8 * most / tokens
            seconds = 2 if quick else 8
            load = _driven(
                flood, int(rate * seconds), tokens, {"kind": "constant", "rate_rps": rate}, client_core, PLAIN
            )
            sent_s = sorted(record.sent_s for record in load.records)
            due_s = sorted(record.scheduled_s for record in load.records)
            offered = (sent_s[-1] - sent_s[0]) / (due_s[-1] - due_s[0])
            results.append((abs(1 / offered - 1), load.client.send_lag_p99_ms, most, _chunks(load) / load.window_s))
    skew, lag_ms, most, brought = (statistics.median(column) for column in zip(*results, strict=True))
    return {
        "value": {"rate_off_by": round(skew, 5), "send_lag_p99_ms": round(lag_ms, 2)},
        "goal": "within 0.005; at most 5 ms",
        "ok": skew <= 0.005 and lag_ms <= 5,
        "max_chunks_per_s": round(most),
        "chunks_per_s": round(brought),
        "runs": len(results),
    }


def _driven(
    endpoint: Endpoint, requests: int, tokens: int, arrivals: Mapping[str, Any], core: set[int], dialect: Dialect
) -> LoadResult:
    spec = {"requests": requests, "prompt_tokens": 32, "output_tokens": tokens, "arrivals": arrivals, "timeout_s": 120}
    workload = materialise(WorkloadSpec.model_validate(spec), 1)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, core)
    try:
        load = drive(endpoint, workload, dialect=dialect)
    finally:
        os.sched_setaffinity(0, before)
    _all_answered(load.records)
    return load


def _all_answered(records: Sequence[RequestRecord]) -> None:
    lost = [record.error for record in records if record.outcome != "ok"]
    if lost:
        raise Unmeasurable(f"{len(lost)} of {len(records)} requests to the mock were lost: {lost[0]}")


def _chunks(load: LoadResult) -> int:
    return sum(len(record.token_times_s) for record in load.records)
