"""Playback: the measurement that a live trial would have given, from a recorded cell. The one place that builds one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.report_card.noise import Luck
from autotune.report_card.surface import Cell, Surface
from tools.canonical import digest
from tools.errors import UserError
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.measurement import Measurement
from tools.measure.prose import Request
from tools.measure.records import RequestRecord
from tools.measure.workload import Workload
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import Identity

__all__ = ["Process", "play"]

_TIMERS = ("ttft_seconds_sum", "ttft_seconds_count", "e2e_seconds_sum", "e2e_seconds_count")
_LOADING_SHARE = 0.7
"Of the time to ready: when the engine says it has started, after its process and before it answers."
_APART_S = 1e-7
"Between the sends of one launch and the next: no two loads are alike in every moment, not even without noise."


@dataclass(frozen=True, slots=True)
class Process:
    """The launch that is being played: what tells it from every other."""

    pid: int
    started_at: float
    "Unix seconds at which its process began."
    ready_s: float

    @property
    def ready_at(self) -> float:
        return self.started_at + self.ready_s


def play(
    surface: Surface,
    cell: Cell,
    workload: Workload,
    config: Config,
    knobs: KnobSpace,
    process: Process,
    luck: Luck,
    speed: float = 1.0,
) -> Measurement:
    """`workload` as the launch in `cell` would have served it, with `luck`.

    Each request takes its turn to its first token behind the one before it (see `Cell.turns_s`), then its recorded
    gaps; so under the recorded load and no noise the recorded times come back, and under a heavier one requests wait
    longer. Where the workload asks for more tokens than were recorded, the gaps begin again. No luck makes a gap
    shorter than the shortest that were recorded: a machine has no better days than its best. `speed` divides all times.

    Raises:
        UserError: conversations of several turns, which aren't recorded.
    """
    if workload.spec.has_turns:
        raise UserError("a replay has single requests: expected a workload without turns")
    served = _records(surface, cell, workload, luck, speed, process)
    window_s = max(record.end_s for record in served)
    client = ClientHealth.of(served, cpu_s=cell.cpu_share * window_s, wall_s=window_s)
    identity = _identity(surface, config, knobs, process)
    before = {**dict.fromkeys(_TIMERS, 0.0), **cell.counters_before}
    return Measurement.of(
        workload,
        LoadResult.of(process.ready_at, served, client, surface.extras),
        config_digest=config.digest,
        identity_before=identity,
        identity_after=identity,
        counters_before=before,
        counters_after=_counted(before, served, cell),
    )


def _records(
    surface: Surface, cell: Cell, workload: Workload, luck: Luck, speed: float, process: Process
) -> tuple[RequestRecord, ...]:
    arrivals = workload.spec.arrivals
    free_s = [0.0] * arrivals.concurrency if arrivals.kind == "closed" else []
    last_first_s = 0.0
    own_s = process.pid % 1000 * _APART_S
    records = []
    for number, request in enumerate(workload.requests):
        recorded = cell.requests[number % len(cell.requests)]
        jitter = luck.jitter[number % len(luck.jitter)]
        due_s = heapq.heappop(free_s) if free_s else request.scheduled_s or 0.0
        sent_s = due_s + recorded.lag_s + own_s
        slower = luck.wait * jitter / speed
        least_s = sent_s + cell.least_first_s * slower
        turn_s = cell.turns_s[number % len(cell.requests)] * slower
        first_s = last_first_s = max(max(last_first_s, sent_s) + turn_s, least_s)
        times = [first_s]
        for token in range(request.max_tokens - 1):
            gap_s = recorded.gaps_s[token % len(recorded.gaps_s)] if recorded.gaps_s else cell.least_gap_s
            dealt_s = max(gap_s * luck.pace * jitter, min(gap_s, cell.least_gap_s))
            times.append(times[-1] + dealt_s / speed)
        end_s = times[-1] + recorded.tail_s
        if arrivals.kind == "closed":
            heapq.heappush(free_s, end_s)
        heard_at = process.ready_at + first_s
        prompt_tokens = workload.prompt_words[number] + surface.template_tokens
        records.append(
            RequestRecord(
                index=request.index,
                scheduled_s=due_s,
                sent_s=sent_s,
                outcome="ok",
                end_s=end_s,
                http_status=200,
                first_chunk_s=first_s,
                token_times_s=tuple(times),
                token_counts=(1,) * len(times),
                prompt_tokens=prompt_tokens,
                output_tokens=len(times),
                cached_tokens=min(recorded.cached_tokens, prompt_tokens - request.own_words),
                token_source="usage",
                token_ids=_token_ids(request, workload, surface),
                finish_reason="length",
                conversation=request.conversation,
                turn=request.turn,
                clock_skew_s=math.floor(heard_at) - heard_at,  # a Date header has whole seconds
            )
        )
    return tuple(records)


def _token_ids(request: Request, workload: Workload, surface: Surface) -> tuple[int, ...]:
    """Some answer of the length asked for, the same at every launch: greedy decoding has one answer to a prompt."""
    vocabulary = int(surface.model.config["vocab_size"])
    seed = int(digest([workload.digest, request.index])[:16], 16)
    return tuple((seed * (place + 1) >> 7) % vocabulary for place in range(request.max_tokens))


def _counted(before: Mapping[str, float], served: tuple[RequestRecord, ...], cell: Cell) -> dict[str, float]:
    """The counters after the load; the engine's own timers began with it where the recording lacks them."""
    prompt = float(sum(record.prompt_tokens or 0 for record in served))
    grown = {
        "prompt_tokens": prompt,
        "generation_tokens": float(sum(record.output_tokens or 0 for record in served)),
        "prefix_queries_tokens": prompt,
        "prefix_hit_tokens": float(sum(record.cached_tokens or 0 for record in served)),
        "requests": float(len(served)),
        "preemptions": cell.preemptions,
        "ttft_seconds_sum": sum(record.token_times_s[0] - record.sent_s for record in served),
        "ttft_seconds_count": float(len(served)),
        "e2e_seconds_sum": sum(record.token_times_s[-1] - record.sent_s for record in served),
        "e2e_seconds_count": float(len(served)),
    }
    return {name: before[name] + grown.get(name, 0.0) for name in before}


def _identity(surface: Surface, config: Config, knobs: KnobSpace, process: Process) -> Identity:
    """The effective config is the one asked for, with what the engine chose where it was let."""
    effective: dict[str, Value] = dict(config.values)
    for name, value in config.values.items():
        auto = knobs[name].auto
        if auto is not None and value == auto and type(value) is type(auto):
            effective[name] = surface.effective.get(name, value)
    return Identity(
        model=surface.model.name,
        model_digest=surface.model.digest,
        config=effective,
        config_digest=digest(effective),
        started_at=process.started_at + _LOADING_SHARE * process.ready_s,
        process_started_at=process.started_at,
        pid=process.pid,
        engine=surface.engine,
    )
