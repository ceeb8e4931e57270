"""Writing a measurement as `vllm bench serve --save-result` does (vLLM 0.32), for the tools that read such files.

The numbers have vLLM's definitions, since that is what the format means: latencies count from the send and of answered
requests alone. So `ttft` and `e2el` here are our `ttft_from_send` and `e2el_from_send` without those who failed; from
`queue_times` (send minus due) the wait before the send can be had back. A P99 of fewer than 368 samples is null, as it
is absent with us. SGLang's names are the same but for `e2e_latency`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

from tools.measure.intervals import percentile
from tools.measure.latency import tpot_s
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo
from tools.measure.summary import MIN_SAMPLES_P99

__all__ = ["DETAIL_KEYS", "vllm_json"]

DETAIL_KEYS = ("input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors")
"""What is there with --save-detailed alone. Answers' texts aren't kept, so `generated_texts` is null."""

_SHARES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def vllm_json(
    measurement: Measurement,
    *,
    model: str,
    slo: Slo | None = None,
    detailed: bool = True,
    request_rate: float | Literal["inf"] | None = None,
    burstiness: float | None = None,
    max_concurrency: int | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """The file's object, its keys in vLLM's order. What isn't told is null.

    `request_rate`, `burstiness` and `max_concurrency` are the load's; a measurement doesn't hold them.
    """
    records = measurement.records
    answered = [record for record in records if record.outcome == "ok" and record.token_times_s]
    prompt_tokens = sum(record.prompt_tokens or 0 for record in answered)
    output_tokens = sum(record.output_tokens or 0 for record in answered)
    duration = measurement.window_s
    good = sum(slo.request_good(record) for record in records) if slo is not None and slo.bounds() else None
    samples_s: dict[str, list[float]] = {
        "ttft": [_ttft_s(record) for record in answered],
        "tpot": [tpot for record in answered if (tpot := tpot_s(record)) is not None],
        "itl": [gap for record in answered for gap in _gaps_s(record)],
        "e2el": [record.token_times_s[-1] - record.sent_s for record in answered],
    }
    result: dict[str, Any] = {
        "date": _date(measurement.started_at),
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": label,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": measurement.offered,
        "request_rate": request_rate,
        "burstiness": burstiness,
        "max_concurrency": max_concurrency,
        "duration": duration,
        "completed": len(answered),
        "failed": measurement.offered - len(answered),
        "total_input_tokens": prompt_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": _per_second(len(answered), duration),
        "request_goodput": None if good is None else _per_second(good, duration),
        "output_throughput": _per_second(output_tokens, duration),
        "total_token_throughput": _per_second(prompt_tokens + output_tokens, duration),
        **_details(records),
        "max_output_tokens_per_s": _max_tokens_per_s(answered),
        "max_concurrent_requests": _max_concurrent(answered),
        "rtfx": 0.0,  # of audio, of which there is none
    }
    if not detailed:
        result = {key: value for key, value in result.items() if key not in DETAIL_KEYS}
    for family, seconds in samples_s.items():
        result |= _statistics(family, seconds)
    return result


def _details(records: Sequence[RequestRecord]) -> dict[str, Any]:
    """One entry per request in each list; zeros for one that wasn't answered, as vLLM has it."""
    ok = [record.outcome == "ok" and bool(record.token_times_s) for record in records]
    pairs = list(zip(records, ok, strict=True))
    return {
        "input_lens": [record.prompt_tokens or 0 for record in records],
        "output_lens": [(record.output_tokens or 0) if fine else 0 for record, fine in pairs],
        "ttfts": [_ttft_s(record) if fine else 0.0 for record, fine in pairs],
        "itls": [_gaps_s(record) if fine else [] for record, fine in pairs],
        "latencies": [record.token_times_s[-1] - record.sent_s if fine else 0.0 for record, fine in pairs],
        "start_times": [record.sent_s for record in records],
        "queue_times": [record.sent_s - record.scheduled_s for record in records],
        "generated_texts": None,
        "errors": ["" if fine else record.error or record.outcome for record, fine in pairs],
    }


def _ttft_s(record: RequestRecord) -> float:
    return record.token_times_s[0] - record.sent_s


def _gaps_s(record: RequestRecord) -> list[float]:
    return [later - earlier for earlier, later in pairwise(record.token_times_s)]


def _statistics(family: str, seconds: Sequence[float]) -> dict[str, float | None]:
    ascending = sorted(1000 * value for value in seconds)
    found: dict[str, float | None] = {
        "mean": statistics.fmean(ascending) if ascending else None,
        "median": percentile(ascending, 0.5),
        "std": statistics.pstdev(ascending) if ascending else None,
        **{name: percentile(ascending, share) for name, share in _SHARES.items()},
    }
    if len(ascending) < MIN_SAMPLES_P99:
        found["p99"] = None
    return {f"{name}_{family}_ms": value for name, value in found.items()}


def _max_tokens_per_s(answered: Sequence[RequestRecord]) -> float:
    """The fullest second, in seconds counted from the first send; one token a chunk, as vLLM counts."""
    first_s = min((record.sent_s for record in answered), default=0.0)
    seconds: dict[int, int] = {}
    for record in answered:
        for time_s in record.token_times_s:
            second = int(time_s - first_s)
            seconds[second] = seconds.get(second, 0) + 1
    return float(max(seconds.values(), default=0))


def _max_concurrent(answered: Sequence[RequestRecord]) -> int:
    """Most requests that touched one second, counted from the first send."""
    first_s = min((record.sent_s for record in answered), default=0.0)
    changes: dict[int, int] = {}
    for record in answered:
        begin, end = int(record.sent_s - first_s), int(record.token_times_s[-1] - first_s)
        changes[begin] = changes.get(begin, 0) + 1
        changes[end + 1] = changes.get(end + 1, 0) - 1
    now = most = 0
    for second in sorted(changes):
        now += changes[second]
        most = max(most, now)
    return most


def _per_second(count: float, duration_s: float) -> float | None:
    return count / duration_s if duration_s > 0 else None


def _date(started_at: float) -> str | None:
    return None if math.isnan(started_at) else datetime.fromtimestamp(started_at, UTC).strftime("%Y%m%d-%H%M%S")
