"""Engine: requests in, token ids out, one step at a time. Text is the business of whoever stands before it."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence as ReadOnlyList

import numpy as np
import torch

from engine.block_pool import BlockPool
from engine.bookkeeping import Bookkeeping
from engine.cuda_graphs import GraphRunner
from engine.delta import Delta, FinishReason
from engine.errors import RequestRefused
from engine.grammar_matcher import GrammarMatchers
from engine.knobs import EngineKnobs
from engine.kv_cache import KVLayout
from engine.limits import check_request
from engine.memory import MemoryPlan, plan_memory
from engine.metrics import EngineMetrics
from engine.model import Model
from engine.runner import CORRUPTED, Launched, Runner
from engine.sampler import Sampler
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.trace import Tracer

__all__ = ["Engine"]


class Engine:
    """A model that serves many requests at once. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        model: Model,
        knobs: EngineKnobs,
        *,
        eos: frozenset[int] = frozenset(),
        matchers: GrammarMatchers | None = None,
        metrics: EngineMetrics | None = None,
        memory: MemoryPlan | None = None,
    ) -> None:
        """An engine over a loaded `model`, with resolved `knobs` (see `engine.loading` for one from a directory)."""
        config = model.config
        self.knobs = knobs
        self.memory = memory or plan_memory(config, knobs)
        self.model_config = config
        self.layout = KVLayout(
            num_blocks=knobs.kv_cache_tokens // knobs.block_size,
            block_size=knobs.block_size,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        kept = torch.float8_e4m3fn if knobs.kv_cache_dtype == "fp8" else model.dtype
        self.cache = model.kernels.cache(self.layout, config.num_layers, kept, model.device)
        self.scheduler = Scheduler(knobs, BlockPool(self.layout.num_blocks))
        self.metrics = metrics or EngineMetrics()
        seats = self.scheduler.seats
        self._matchers = matchers
        self._eos = np.zeros(config.vocab_size, bool)
        self._eos[[token for token in eos if token < config.vocab_size]] = True
        graphs = None
        if knobs.cuda_graphs and knobs.kernels == "triton":
            sizes = {"max_num_seqs": knobs.max_num_seqs, "max_model_len": knobs.max_model_len}
            graphs = GraphRunner(model, self.cache, **sizes, block_size=knobs.block_size)
            graphs.capture()
        self.tracer = Tracer()
        sampler = Sampler(seats, eos, matchers, model.kernels.draw)
        self._runner = Runner(model, self.cache, sampler, self.tracer, seats, graphs)
        self._books = Bookkeeping(self.metrics, self.tracer, seats, model, knobs)
        self._overlap = knobs.async_scheduling == "on"
        "Resolved: `auto` is gone."
        self._launched: Launched | None = None
        self._requests: dict[str, Sequence] = {}

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work or self._launched is not None

    def add(
        self,
        request_id: str,
        prompt: ReadOnlyList[int],
        params: SamplingParams,
        *,
        arrived_s: float | None = None,
        priority: int = 0,
        deadline_s: float | None = None,
    ) -> None:
        """Queue a request; its tokens come out of later steps.

        Args:
            arrived_s: when it arrived, on the monotonic clock; now by default.
            priority: lower goes first, and is the last to be preempted.
            deadline_s: when it ends, answered or not, on the monotonic clock.

        Raises:
            RequestRefused: see `engine.limits.check_request`; or a grammar that can't be followed.
        """
        check_request(prompt, params, self.knobs.max_model_len, self.model_config.vocab_size)
        if params.grammar is not None:
            if self._matchers is None:
                raise RequestRefused("this engine has no tokenizer to follow a grammar with", param="response_format")
            self._matchers.start(request_id, params.grammar)
        sequence = Sequence(
            request_id,
            np.array(prompt, np.int32),
            params,
            arrived_s=time.monotonic() if arrived_s is None else arrived_s,
            priority=priority,
            deadline_s=math.inf if deadline_s is None else deadline_s,
            seed=secrets.randbits(64) if params.seed is None else params.seed % 2**64,
        )
        if params.prompt_logprobs is not None:
            sequence.prompt_logprobs = [None] * len(prompt)
        self._requests[request_id] = sequence
        self.tracer.request(request_id, "queued", sequence.arrived_s)
        self.scheduler.add(sequence)
        self._books.gauges(self.scheduler)

    def finish(self, request_id: str, reason: FinishReason = "abort") -> None:
        """Stop a request and free its blocks. One that is over, or was never there, is left alone."""
        if sequence := self._requests.get(request_id):
            self._finish(sequence, reason)
            self._books.gauges(self.scheduler)

    def step(self) -> list[Delta]:
        """Compute one step: schedule, run, take in what came out.

        With overlap, what comes out is the step before: this one is still being computed on return.
        """
        deltas = self._expire()
        with self.tracer.phase("schedule"):
            step = self.scheduler.schedule()
        if step is None:
            deltas += self._settle()
            step = self.scheduler.schedule()
            assert step is not None, "nothing is in flight"
        launched = None
        self._books.scheduled(step)
        if step.num_sequences:
            launched = self._runner.launch(step)
            self.scheduler.launch(step)
        if self._overlap:
            deltas += self._settle()
            self._launched = launched
        else:
            self._launched = launched
            deltas += self._settle()
        self._books.gauges(self.scheduler)
        if not self.has_work:
            self.scheduler.check()
        return deltas

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix; False, and nothing forgotten, while requests run."""
        if self.has_work:
            return False
        self.scheduler.pool.forget_all()
        return True

    def _settle(self) -> list[Delta]:
        """Take in what the launched step has computed, if there is one."""
        launched, self._launched = self._launched, None
        if launched is None:
            return []
        with self.tracer.phase("postprocess"):
            return self._take(launched)

    def _take(self, launched: Launched) -> list[Delta]:
        step, seats = launched.step, self.scheduler.seats
        token_ids = launched.collect()
        now_s = time.monotonic()
        for seat, position, known in launched.prompt_logprobs:
            if sequence := seats.sitting[seat]:
                sequence.prompt_logprobs[position] = known
        yielding = step.seats[step.yields]
        totals = (step.first + step.count)[step.yields] + 1
        sequences = [seats.sitting[seat] for seat in yielding.tolist()]
        self.scheduler.settle(step, token_ids)
        live = np.array([sequence is not None and sequence.finish_reason is None for sequence in sequences], bool)
        self._books.computed(launched, live, now_s)
        ends = self._eos[token_ids] & ~seats.ignores_eos[yielding]
        full = totals >= seats.max_total[yielding]
        special = seats.has_stop_ids[yielding] | seats.edits_logits[yielding]
        deltas = []
        for row, (sequence, token, end, last, is_special) in enumerate(
            zip(sequences, token_ids.tolist(), ends.tolist(), full.tolist(), special.tolist(), strict=True)
        ):
            if sequence is None or sequence.finish_reason is not None:
                continue  # it ended while this step was being computed
            if is_special:
                end = end or token in sequence.params.stop_token_ids
                if sequence.params.grammar is not None and self._matchers is not None:
                    self._matchers.accept(sequence.request_id, token)
            reason: FinishReason | None = "stop" if end else "length" if last else None
            if token == CORRUPTED:
                deltas.append(Delta(sequence.request_id, (), "error", sequence.num_cached_tokens))
                self._finish(sequence, "error")
                continue
            logprobs = (launched.logprobs[row],) if row in launched.logprobs else ()
            prompt_logprobs, sequence.prompt_logprobs = tuple(sequence.prompt_logprobs), []
            cached = sequence.num_cached_tokens
            deltas.append(Delta(sequence.request_id, (token,), reason, cached, logprobs, prompt_logprobs))
            if reason:
                self._finish(sequence, reason)
        return deltas

    def _expire(self) -> list[Delta]:
        deltas = []
        for sequence in self.scheduler.expired(time.monotonic()):
            deltas.append(Delta(sequence.request_id, (), "deadline", sequence.num_cached_tokens))
            self._finish(sequence, "deadline")
        return deltas

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        self._books.finished(sequence, reason)
        self.scheduler.finish(sequence, reason)
        if sequence.params.grammar is not None and self._matchers is not None:
            self._matchers.forget(sequence.request_id)
        del self._requests[sequence.request_id]
