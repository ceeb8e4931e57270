"""Self-calibration: the client measured against a mock server with fixed, known delays before it measures anything.

The mock is a process of its own: in ours it would share the interpreter's lock with the client, and the floor would
tell of that.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

from tools.errors import UserError
from tools.measure.client import drive
from tools.measure.dialect import Dialect
from tools.measure.floor import Floor
from tools.measure.intervals import percentile
from tools.measure.load import LoadResult
from tools.measure.mock import FLOOD, MODEL
from tools.measure.records import RequestRecord
from tools.measure.workload import Workload, WorkloadSpec, materialise
from tools.targets.target import Endpoint

__all__ = ["measure_floor", "mock_server", "true_times", "usable_cores"]

_PACED = {"ttft_ms": 10.0, "itl_ms": 5.0}
_PACED_REQUESTS, _PACED_RATE, _PACED_TOKENS = 120, 150.0, 12
_STREAMS, _STREAM_TOKENS = 32, 600


def measure_floor(workers: int = 1) -> Floor:
    """About two seconds: a paced load for lag and jitter, then as many chunks as the client can take.

    Raises:
        UserError: the mock doesn't start, or the client loses requests of it: nothing measured here could be trusted.
    """
    with mock_server(**_PACED) as endpoint:
        paced = _load(_PACED_REQUESTS, _PACED_TOKENS, {"kind": "constant", "rate_rps": _PACED_RATE})
        seen = _answered(drive(endpoint, paced, dialect=Dialect(), workers=workers))
        truth = true_times(endpoint)
        max_chunks_per_s = _max_chunks_per_s(replace(endpoint, model=FLOOD), workers)
    delays_s = _delays_s(seen.records, truth)
    usual_s = statistics.median(delays_s)
    jitter_s = percentile(sorted(max(delay - usual_s, 0.0) for delay in delays_s), 0.99)
    overheads_s = [
        (record.token_times_s[0] - record.sent_s) - (sent_s[0] - received_s)
        for record, (received_s, sent_s) in zip(_by_sending(seen.records), truth, strict=True)
    ]
    assert jitter_s is not None
    return Floor(
        send_lag_p99_ms=seen.client.send_lag_p99_ms,
        stamp_jitter_p99_ms=jitter_s * 1000,
        ttft_overhead_ms=statistics.median(overheads_s) * 1000,
        max_chunks_per_s=max_chunks_per_s,
        workers=workers,
    )


@contextmanager
def mock_server(*flags: str, ttft_ms: float, itl_ms: float) -> Iterator[Endpoint]:
    """A mock with these delays (see `mock`) on a free loopback port, reaped at the end.

    Raises:
        UserError: it doesn't start.
    """
    command = [sys.executable, "-m", "tools.measure.mock", "--ttft-ms", f"{ttft_ms}", "--itl-ms", f"{itl_ms}", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        port = process.stdout.readline().strip()
        if not port:
            raise UserError(
                f"the mock server for the client's calibration didn't start: {process.stderr.read()[-300:]}"
            )
        yield Endpoint(f"http://127.0.0.1:{port}", MODEL)
    finally:
        process.kill()
        process.communicate()


def true_times(endpoint: Endpoint) -> list[tuple[float, list[float]]]:
    """(received, [sent, ...]) of every request to a mock, in order of receipt; seconds on the performance counter."""
    with urllib.request.urlopen(f"{endpoint.base_url}/truth", timeout=30) as answer:
        told: dict[str, Any] = json.load(answer)
    return [(request["received_s"], request["sent_s"]) for request in told["requests"]]


def _load(requests: int, tokens: int, arrivals: dict[str, Any]) -> Workload:
    spec = {"requests": requests, "prompt_tokens": 64, "output_tokens": tokens, "arrivals": arrivals}
    return materialise(WorkloadSpec.model_validate({**spec, "warmup_requests": 0, "timeout_s": 30}), 0)


def _answered(load: LoadResult) -> LoadResult:
    lost = [record.error for record in load.records if record.outcome != "ok"]
    if lost:
        raise UserError(
            f"the client's calibration: expected {len(load.records)} answers of the mock server, {len(lost)} are "
            f"missing; the first: {lost[0]}. Is the machine out of memory, or of file descriptors?"
        )
    return load


def _by_sending(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return sorted(records, key=lambda record: record.sent_s)


def _delays_s(records: Sequence[RequestRecord], truth: Sequence[tuple[float, list[float]]]) -> list[float]:
    """From the mock's write of each chunk to the client's stamp, up to a constant: the starts of both clocks."""
    seen = chain.from_iterable(record.token_times_s for record in _by_sending(records))
    sent = chain.from_iterable(sent_s for _, sent_s in truth)
    return [at_s - sent_s for at_s, sent_s in zip(seen, sent, strict=True)]


def _max_chunks_per_s(endpoint: Endpoint, workers: int) -> float:
    """Chunks that all workers can take in a second: per second of CPU time, when there is always another one, times the
    cores that they can have."""
    flood = _load(_STREAMS * workers, _STREAM_TOKENS, {"kind": "burst"})
    load = _answered(drive(endpoint, flood, dialect=Dialect(), workers=workers))
    chunks = sum(len(record.token_times_s) for record in load.records)
    cores_used = load.client.cores_used
    assert cores_used is not None
    return chunks / (cores_used * load.window_s) * usable_cores(workers)


def usable_cores(workers: int) -> int:
    """Cores that so many processes can have here."""
    return min(workers, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
