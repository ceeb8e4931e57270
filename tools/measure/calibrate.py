"""Calibrate: a server's impulse response. Its latency when nobody else is there, its throughput when it is never idle.

The two ends bound every open-loop measurement: no load can be answered faster than the floor or at more than the
ceiling, and a rate above the ceiling only grows a queue.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools.errors import UserError
from tools.measure import latency
from tools.measure.arrivals import Burst, Closed
from tools.measure.client import drive, warm_up
from tools.measure.dialect import Dialect
from tools.measure.load import LoadResult
from tools.measure.progress import ProgressCallback
from tools.measure.records import RequestRecord
from tools.measure.workload import MAX_SEED, WorkloadSpec, materialise
from tools.targets.target import Endpoint

__all__ = ["Calibration", "derive_seed", "impulse_response"]


BURST_REQUESTS = 32
"""Most requests of the burst: a larger one would time out on a server that serves its own rate well."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Medians of requests sent one at a time, and rates of the same mix sent all at once."""

    spec_digest: str
    seed: int
    floor_requests: int
    floor_ttft_ms: float
    floor_tpot_ms: float | None
    "None where no request had more than one output token."
    floor_e2el_ms: float
    ceiling_requests: int
    ceiling_request_throughput: float
    "Requests per second."
    ceiling_output_throughput: float
    "Output tokens per second."
    ceiling_total_token_throughput: float
    "Prompt and output tokens per second."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        return cls(**data)


def impulse_response(
    endpoint: Endpoint,
    spec: WorkloadSpec,
    *,
    seed: int | None = None,
    floor_requests: int = 8,
    dialect: Dialect | None = None,
    on_progress: ProgressCallback | None = None,
) -> Calibration:
    """The latency floor and the throughput ceiling of `endpoint` for the mix of requests in `spec`.

    The floor comes from `floor_requests` requests one after the other, the ceiling from at most BURST_REQUESTS in one
    burst. Each phase has a seed derived from `seed` (the spec's by default), so neither finds the other's prompts in a
    cache. Without a `dialect` the endpoint is warmed up first.

    Raises:
        UserError: a request failed or timed out, so the server can't be calibrated.
    """
    seed = spec.seed if seed is None else seed
    alone = _changed(spec, arrivals=Closed(kind="closed", concurrency=1), requests=floor_requests)
    at_once = _changed(spec, arrivals=Burst(kind="burst"), requests=min(spec.requests, BURST_REQUESTS))
    floor_load = materialise(alone, derive_seed(seed, "floor"))
    ceiling_load = materialise(at_once, derive_seed(seed, "ceiling"))
    if dialect is None:
        dialect = warm_up(endpoint, floor_load)
    floor = _answered("the latency floor", drive(endpoint, floor_load, dialect=dialect, on_progress=on_progress))
    ceiling_result = drive(endpoint, ceiling_load, dialect=dialect, on_progress=on_progress)
    ceiling = _answered("the throughput ceiling", ceiling_result)
    window_s = ceiling_result.window_s
    output_tokens = sum(record.output_tokens or 0 for record in ceiling)
    prompt_tokens = sum(record.prompt_tokens or 0 for record in ceiling)
    ttft_ms, e2el_ms = _median_ms(floor, latency.ttft_s), _median_ms(floor, latency.e2el_s)
    assert ttft_ms is not None and e2el_ms is not None, "every answered request has a first and a last token"
    return Calibration(
        spec_digest=spec.digest,
        seed=seed,
        floor_requests=len(floor),
        floor_ttft_ms=ttft_ms,
        floor_tpot_ms=_median_ms(floor, latency.tpot_s),
        floor_e2el_ms=e2el_ms,
        ceiling_requests=len(ceiling),
        ceiling_request_throughput=len(ceiling) / window_s,
        ceiling_output_throughput=output_tokens / window_s,
        ceiling_total_token_throughput=(output_tokens + prompt_tokens) / window_s,
    )


def derive_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose: the same every time, and unrelated to those of other purposes."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") & MAX_SEED


def _changed(spec: WorkloadSpec, **changes: Any) -> WorkloadSpec:
    """`spec` with `changes`, validated anew: a copy would keep what the original knows of itself, its digest too."""
    return WorkloadSpec.model_validate({name: getattr(spec, name) for name in spec.model_fields_set} | changes)


def _answered(what: str, load: LoadResult) -> tuple[RequestRecord, ...]:
    lost = [record for record in load.records if record.outcome != "ok"]
    if lost:
        raise UserError(
            f"calibration of {what}: expected {len(load.records)} answers, {len(lost)} requests were lost; "
            f"the first one: {lost[0].error}. Look at the server's log, or make the workload smaller"
        )
    return load.records


def _median_ms(records: tuple[RequestRecord, ...], of: Callable[[RequestRecord], float | None]) -> float | None:
    values = [value for record in records if (value := of(record)) is not None]
    return statistics.median(values) * 1000 if values else None
