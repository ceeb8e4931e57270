"""Runner: a scheduled step, computed."""

from __future__ import annotations

import torch

from engine.batch import build_batch
from engine.kv_cache import KVCache
from engine.model import Model
from engine.sampler import Sampler
from engine.scheduler import Schedule
from engine.sequence import Sequence

__all__ = ["Runner"]


class Runner:
    """Holds the model and the cache; knows nothing of requests beyond their tokens and blocks."""

    def __init__(self, model: Model, cache: KVCache) -> None:
        self._model = model
        self._cache = cache
        self._sampler = Sampler(model.device)

    @torch.inference_mode()
    def run(self, step: Schedule) -> list[tuple[Sequence, int]]:
        """The next token of each sequence whose last known token the step computes."""
        model = self._model
        batch = build_batch(step.scheduled, self._cache.layout, model.dtype, model.device)
        logits = model.forward(batch.token_ids, batch.positions, batch.plan, self._cache, batch.last_rows)
        if not batch.sampled:
            return []
        tokens = self._sampler.sample(logits, [(sequence.request_id, sequence.params) for sequence in batch.sampled])
        return list(zip(batch.sampled, tokens, strict=True))

    def forget(self, sequence: Sequence) -> None:
        """`sequence` is over; nothing of it is kept outside the cache."""
        self._sampler.forget(sequence.request_id)
