"""Runner: a scheduled step, computed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.batch import Batch, build_batch, prompt_rows
from engine.cuda_graphs import GraphRunner
from engine.logprobs import TokenLogprobs, logprobs_of
from engine.model import Model
from engine.sampler import Sampler
from engine.scheduler import Step
from engine.seats import Index, Seats
from engine.sequence import Sequence
from engine.trace import Tracer
from engine.transfer import to_device

__all__ = ["CORRUPTED", "Launched", "Runner"]

CORRUPTED = -1
"""In place of a token: the model said something that is no number, and so no token."""


@dataclass(slots=True)
class Launched:
    """A step that is being computed, or has been."""

    step: Step
    tokens: Tensor
    "[yielding sequences] int64, on the host once `ready` has come; CORRUPTED where the logits weren't finite."
    logprobs: dict[int, TokenLogprobs]
    "Of new tokens, by row of `tokens`, where asked for."
    prompt_logprobs: list[tuple[int, int, TokenLogprobs]]
    "Of prompt tokens: seat, position, and what is known."
    start_s: float
    "When the device could begin, on the monotonic clock."
    end_s: float = 0.0
    "When it had ended; 0 while that isn't known."
    ready: torch.cuda.Event | None = None
    graph: bool = False

    def collect(self) -> Index:
        """The new tokens, waited for."""
        if self.ready is not None:
            self.ready.synchronize()
        tokens: Index = self.tokens.numpy()
        return tokens


class Runner:
    """Holds the model and its cache; knows nothing of requests beyond what lies in their seats."""

    def __init__(
        self,
        model: Model,
        cache: Any,
        sampler: Sampler,
        tracer: Tracer,
        seats: Seats,
        graphs: GraphRunner | None = None,
    ) -> None:
        self._tracer = tracer
        self._model = model
        self._cache = cache
        self._graphs = graphs
        self._seats = seats
        self._sampler = sampler
        self._last_tokens = torch.zeros(len(seats.sitting), dtype=torch.int64, device=model.device)
        "The newest token of each seat, where the next step finds it before the host does."

    @torch.inference_mode()
    def launch(self, step: Step) -> Launched:
        """Start to compute `step`; on a CPU that is to compute it."""
        model, seats, tracer = self._model, self._seats, self._tracer
        with tracer.phase("prepare"):
            batch = build_batch(step, seats, model.device)
            self._fill_pending(batch, step)
        start_s = time.monotonic()
        with tracer.phase("run"):
            logits, graph = self._forward(batch)
        yielding = step.seats[step.yields]
        positions = (step.first + step.count)[step.yields]
        with tracer.phase("sample"):
            tokens = self._sampler.sample(logits[: len(yielding)], yielding, positions)
        logprobs = self._logprobs(logits, tokens, yielding)
        prompt_logprobs = self._prompt_logprobs(logits[len(yielding) :], step)
        self._last_tokens.index_copy_(0, to_device(yielding, model.device), tokens)
        # A NaN or an infinity anywhere in a row's hidden state is in every logit of it.
        chosen = logits[: len(yielding)].gather(1, tokens[:, None])[:, 0]
        tokens = torch.where(chosen.isfinite(), tokens, CORRUPTED)
        if model.device.type == "cpu":
            return Launched(step, tokens, logprobs, prompt_logprobs, start_s, end_s=time.monotonic())
        host = torch.empty(len(yielding), dtype=torch.int64, pin_memory=True).copy_(tokens, non_blocking=True)
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()
        return Launched(step, host, logprobs, prompt_logprobs, start_s, ready=ready, graph=graph)

    def _forward(self, batch: Batch) -> tuple[Tensor, bool]:
        """Logits of the wanted rows, and whether a graph was replayed for them."""
        if self._graphs is not None:
            return self._graphs.forward(batch)
        return self._model.forward(batch, self._model.kernels.plan(batch), self._cache), False

    def _fill_pending(self, batch: Batch, step: Step) -> None:
        """Tokens that only the device knows so far. Their sequences have one token each, so row is sequence."""
        pending = np.flatnonzero(self._seats.num_pending[step.seats])
        if len(pending):
            device = self._model.device
            newest = self._last_tokens.index_select(0, to_device(step.seats[pending], device))
            batch.token_ids.index_copy_(0, to_device(pending, device), newest)

    def _logprobs(self, logits: Tensor, tokens: Tensor, yielding: Index) -> dict[int, TokenLogprobs]:
        asking = np.flatnonzero(self._seats.wants_logprobs[yielding])
        if not len(asking):
            return {}
        counts = [self._sequence(seat).params.logprobs or 0 for seat in yielding[asking].tolist()]
        index = to_device(asking, logits.device)
        found = logprobs_of(logits.index_select(0, index), tokens.index_select(0, index), counts)
        return dict(zip(asking.tolist(), found, strict=True))

    def _prompt_logprobs(self, logits: Tensor, step: Step) -> list[tuple[int, int, TokenLogprobs]]:
        if not len(logits):
            return []
        _, seats, positions = prompt_rows(step, self._seats)
        tokens = to_device(self._seats.token_ids[seats, positions].astype(np.int64), logits.device)
        counts = [self._sequence(seat).params.prompt_logprobs or 0 for seat in seats.tolist()]
        return list(zip(seats.tolist(), positions.tolist(), logprobs_of(logits, tokens, counts), strict=True))

    def _sequence(self, seat: int) -> Sequence:
        sequence = self._seats.sitting[seat]
        assert sequence is not None
        return sequence
