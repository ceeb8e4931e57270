"""Loads: the raw records of a launch that never was, with noise like a real one's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tools.canonical import digest
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.workload import Request, Workload
from tools.targets.knobs import Config
from tools.targets.target import Identity

__all__ = ["BLOCK_TOKENS", "EXTRAS", "Served", "Speed", "counted", "measured"]

EXTRAS = ("return_token_ids", "continuous_usage_stats", "ignore_eos", "temperature")
BLOCK_TOKENS = 16
"Of the prefix cache: whole blocks are shared."
TEMPLATE_TOKENS = 12
"What the chat template adds to each prompt."
VOCABULARY = 4096
_WAY_S = 0.0006
"To the server and back."


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a config is, and how much that varies."""

    ttft_s: float = 0.120
    "Typical time to the first token of a prompt of mean length."
    itl_s: float = 0.012
    launch_cv: float = 0.02
    "How much launches of one config differ: their unit is the launch."
    request_cv: float = 0.15
    failing_share: float = 0.0
    "Of the requests, answered 503."
    lost_share: float = 0.0
    "Of the requests, given up at their time limit."

    def faster(self, ttft: float, itl: float = 1.0) -> Speed:
        """The same with its first tokens `ttft` times and its gaps `itl` times as long."""
        return Speed(
            self.ttft_s * ttft, self.itl_s * itl, self.launch_cv, self.request_cv, self.failing_share, self.lost_share
        )


@dataclass(frozen=True, slots=True)
class Served:
    """One launch: what it ran with, and when."""

    config: Config
    model: str
    model_digest: str
    autos: Mapping[str, int]
    "What the engine made of knobs that let it choose."
    process_started_at: float
    "Unix seconds by the operating system."
    started_at: float
    "By the server's own word."
    pid: int

    @property
    def identity(self) -> Identity:
        effective = {**self.config.values, **self.autos}
        return Identity(
            model=self.model,
            model_digest=self.model_digest,
            config=effective,
            config_digest=digest(effective),
            started_at=self.started_at,
            process_started_at=self.process_started_at,
            pid=self.pid,
            engine="autotune-engine 0.1.0",
        )


def measured(workload: Workload, served: Served, speed: Speed, started_at: float, noise: str) -> Measurement:
    """A load of `workload`, begun at `started_at` (Unix seconds). Equal arguments give equal records."""
    random = Random(noise)
    pace = _log_normal(random, speed.launch_cv)
    typical_tokens = sum(workload.prompt_words) / len(workload.requests) + TEMPLATE_TOKENS
    records = tuple(
        _record(request, words, workload, speed, pace, typical_tokens, random)
        for request, words in zip(workload.requests, workload.prompt_words, strict=True)
    )
    client = ClientHealth.of(records, cpu_s=0.06 * max(r.end_s for r in records), wall_s=max(r.end_s for r in records))
    load = LoadResult.of(started_at, records, client, EXTRAS)
    before = {"prompt_tokens": 96.0, "generation_tokens": 18.0, "requests": 3.0, "preemptions": 0.0, "aborted": 0.0}
    before |= {"rejected": 0.0, "prefix_queries_tokens": 96.0, "prefix_hit_tokens": 0.0}
    before |= {"ttft_seconds_sum": 0.4, "ttft_seconds_count": 3.0, "e2e_seconds_sum": 0.7, "e2e_seconds_count": 3.0}
    return Measurement.of(
        workload,
        load,
        config_digest=served.config.digest,
        identity_before=served.identity,
        identity_after=served.identity,
        counters_before=before,
        counters_after=counted(before, records),
    )


def _record(
    request: Request,
    words: int,
    workload: Workload,
    speed: Speed,
    pace: float,
    typical_tokens: float,
    random: Random,
) -> RequestRecord:
    due_s = request.scheduled_s or 0.0
    sent_s = due_s + abs(random.gauss(0.0, 0.0002))
    own = Random(f"{workload.seed}/{request.index}")  # what the model says depends on the prompt alone
    ids = tuple(own.randrange(2, VOCABULARY) for _ in range(request.max_tokens))
    fate = random.random()
    base = RequestRecord(
        index=request.index,
        scheduled_s=due_s,
        sent_s=sent_s,
        outcome="failed",
        end_s=sent_s + 0.004,
        http_status=503,
        error="http_503: no seat is free",
        conversation=request.conversation,
        turn=request.turn,
        clock_skew_s=-random.random(),
    )
    if fate < speed.failing_share:
        return base
    prompt_tokens = words + TEMPLATE_TOKENS
    wait_s = speed.ttft_s * pace * (0.6 + 0.4 * prompt_tokens / typical_tokens) * _log_normal(random, speed.request_cv)
    times = [sent_s + wait_s]
    for _ in ids[1:]:
        times.append(times[-1] + speed.itl_s * pace * _log_normal(random, speed.request_cv))
    shared = max(0, (words - request.own_words) // BLOCK_TOKENS * BLOCK_TOKENS) if request.index else 0
    given_up = fate < speed.failing_share + speed.lost_share
    tokens = ids[:1] if given_up else ids
    return replace(
        base,
        outcome="timed_out" if given_up else "ok",
        http_status=200,
        error=f"timed_out: no complete answer within {workload.spec.timeout_s:g} s" if given_up else "",
        end_s=due_s + workload.spec.timeout_s if given_up else times[-1] + 0.0008,
        first_chunk_s=times[0],
        token_times_s=tuple(times[: len(tokens)]),
        token_counts=(1,) * len(tokens),
        prompt_tokens=prompt_tokens,
        output_tokens=len(tokens),
        cached_tokens=shared,
        token_source="usage",
        token_ids=tokens,
        finish_reason=None if given_up else "length",
    )


def counted(before: Mapping[str, float], records: Sequence[RequestRecord]) -> dict[str, float]:
    """What an honest server's counters stand at after these requests; `before` says which it has."""
    answered = [record for record in records if record.outcome != "failed"]
    ok = [record for record in records if record.outcome == "ok"]
    begun = [record for record in answered if record.token_times_s]
    added = {
        "requests": len(ok),
        "aborted": sum(record.outcome == "timed_out" for record in records),
        "rejected": sum(record.outcome == "failed" for record in records),
        "prompt_tokens": sum(record.prompt_tokens or 0 for record in answered),
        "generation_tokens": sum(record.output_tokens or 0 for record in answered),
        "prefix_queries_tokens": sum(record.prompt_tokens or 0 for record in answered),
        "prefix_hit_tokens": sum(record.cached_tokens or 0 for record in answered),
        "ttft_seconds_sum": sum(record.token_times_s[0] - record.sent_s - _WAY_S for record in begun),
        "ttft_seconds_count": len(begun),
        "e2e_seconds_sum": sum(record.token_times_s[-1] - record.sent_s - _WAY_S for record in ok),
        "e2e_seconds_count": len(ok),
    }
    return {name: value + added.get(name, 0) for name, value in before.items()}


def _log_normal(random: Random, cv: float) -> float:
    """A factor with median 1 and coefficient of variation `cv`."""
    return math.exp(random.gauss(0.0, math.sqrt(math.log1p(cv * cv)))) if cv else 1.0
