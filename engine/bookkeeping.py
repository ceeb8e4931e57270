"""Bookkeeping: what the engine's steps come to in metrics and in the trace; nothing here decides anything."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from engine.delta import FinishReason
from engine.knobs import EngineKnobs
from engine.metrics import EngineMetrics, RequestRecord, StepRecord
from engine.model import Model
from engine.runner import Launched
from engine.scheduler import Scheduler, Step
from engine.seats import Seats
from engine.sequence import Sequence
from engine.trace import Tracer
from engine.work import ModelWork

__all__ = ["Bookkeeping"]


class Bookkeeping:
    """Observes scheduling, computation and ends. Whole arrays at a time: a step may hold hundreds of sequences."""

    def __init__(self, metrics: EngineMetrics, tracer: Tracer, seats: Seats, model: Model, knobs: EngineKnobs) -> None:
        self._metrics = metrics
        self._tracer = tracer
        self._seats = seats
        self._work = ModelWork.of(
            model.config,
            weight_bytes=sum(linear.num_bytes for layer in model.layers for linear in layer.linears),
            head_bytes=model.head.num_bytes,
            bytes_per_value=1 if knobs.kv_cache_dtype == "fp8" else model.dtype.itemsize,
            windows=tuple(Counter(model.config.windows).items()),
        )

    def scheduled(self, step: Step) -> None:
        now_s = time.monotonic()
        for sequence in step.admitted:
            sequence.scheduled_s = now_s
            self._metrics.admitted(sequence.num_prompt_tokens, sequence.num_cached_tokens)
            self._tracer.request(sequence.request_id, "prefill", now_s)
        for sequence in step.preempted:
            self._tracer.request(sequence.request_id, "preempted", now_s)
        if step.preempted:
            self._metrics.preempted(len(step.preempted))

    def computed(self, launched: Launched, live: NDArray[np.bool_], now_s: float) -> None:
        """A step has been computed; `live` tells which of its yielding sequences aren't over since."""
        step, seats, metrics = launched.step, self._seats, self._metrics
        ends = step.first + step.count
        repeated = (np.minimum(ends, seats.num_recomputed[step.seats]) - step.first).clip(0)
        num_decode = int((step.count[step.yields] == 1).sum())
        record = StepRecord(
            start_s=launched.start_s,
            end_s=launched.end_s or now_s,
            num_prefill_tokens=step.num_tokens - num_decode,
            num_decode_tokens=num_decode,
            num_sequences=step.num_sequences,
            recomputed_tokens=int(repeated.sum()),
            graph=launched.graph,
            work=self._work.step(step.count, ends, int(step.yields.sum())),
        )
        metrics.step(record)
        if self._tracer.on:
            self._tracer.step(
                record.start_s,
                record.end_s,
                prefill_tokens=record.num_prefill_tokens,
                decode_tokens=num_decode,
                sequences=record.num_sequences,
                recomputed_tokens=record.recomputed_tokens,
            )
        yielding = step.seats[step.yields][live]
        if not len(yielding):
            return
        is_first = ends[step.yields][live] == seats.num_prompt[yielding]
        first = [s for seat in yielding[is_first].tolist() if (s := seats.sitting[seat])]
        for sequence in first:
            sequence.first_token_s = now_s
            self._tracer.request(sequence.request_id, "decode", now_s)
        if first:
            arrived_s = np.array([sequence.arrived_s for sequence in first])
            prompts = sum(sequence.num_prompt_tokens for sequence in first)
            metrics.first_tokens(now_s - arrived_s, prompts, sum(sequence.num_cached_tokens for sequence in first))
        metrics.inter_token(now_s - seats.last_token_s[yielding[~is_first]])
        metrics.generated(len(yielding))
        seats.last_token_s[yielding] = now_s

    def finished(self, sequence: Sequence, reason: FinishReason) -> None:
        """`sequence` is over, and still where it was."""
        seat, seats = sequence.seat, self._seats
        self._tracer.request(sequence.request_id, None, time.monotonic())
        self._metrics.corrupted(int(reason == "error"))
        known = len(sequence.token_ids) if seat < 0 else int(seats.num_tokens[seat] - seats.num_pending[seat])
        self._metrics.finished(
            RequestRecord(
                reason=reason,
                arrived_s=sequence.arrived_s,
                scheduled_s=sequence.scheduled_s,
                first_token_s=sequence.first_token_s,
                last_token_s=sequence.last_token_s if seat < 0 else float(seats.last_token_s[seat]),
                num_prompt_tokens=sequence.num_prompt_tokens,
                num_output_tokens=known - sequence.num_prompt_tokens,
                max_tokens=sequence.params.max_tokens,
                num_cached_tokens=sequence.num_cached_tokens,
                num_preemptions=sequence.num_preemptions,
            )
        )

    def gauges(self, scheduler: Scheduler) -> None:
        self._metrics.gauges(
            running=len(scheduler.running), waiting=len(scheduler.waiting), kv_usage=scheduler.pool.usage
        )
