"""Sampler: the next token of each sequence from its logits."""

from __future__ import annotations

from collections.abc import Sequence as ReadOnlyList

import torch
from torch import Tensor

from engine.sampling import SamplingParams

__all__ = ["Sampler"]


class Sampler:
    """Chooses tokens. Each sampled request has a random generator of its own, so that its neighbours don't matter."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._generators: dict[str, torch.Generator] = {}

    def sample(self, logits: Tensor, requests: ReadOnlyList[tuple[str, SamplingParams]]) -> list[int]:
        """One token id for each row of `logits` [requests, vocab_size]."""
        rows = [row for row, (_, params) in enumerate(requests) if not params.greedy]
        # The lowest index among equals; in bf16 max is four times as fast as argmax on a CPU.
        tokens = logits.max(-1).indices
        if rows:
            wanted = torch.tensor(rows, device=self._device)
            drawn = self._draw(logits.index_select(0, wanted).float(), [requests[row] for row in rows])
            tokens.index_copy_(0, wanted, drawn)
        chosen: list[int] = tokens.tolist()
        return chosen

    def forget(self, request_id: str) -> None:
        """The request is over; its generator is dropped."""
        self._generators.pop(request_id, None)

    def _draw(self, logits: Tensor, requests: ReadOnlyList[tuple[str, SamplingParams]]) -> Tensor:
        params = [p for _, p in requests]
        # Relative to the largest, so that a tiny temperature can't overflow.
        logits.sub_(logits.amax(-1, keepdim=True)).div_(
            torch.tensor([p.temperature for p in params], device=self._device)[:, None]
        )
        if any(p.top_k > 0 or p.top_p < 1 for p in params):
            mask_unlikely(logits, params)
        probabilities = logits.softmax(-1)
        # The exponential race: argmax of p / Exp(1) is distributed as p, without a synchronising multinomial.
        noise = torch.empty_like(probabilities)
        for row, (request_id, p) in enumerate(requests):
            noise[row].exponential_(generator=self._generator(request_id, p.seed))
        # An impossible token must lose even against a draw of zero.
        return probabilities.div_(noise.clamp_min_(torch.finfo(noise.dtype).tiny)).argmax(-1)

    def _generator(self, request_id: str, seed: int | None) -> torch.Generator:
        generator = self._generators.get(request_id)
        if generator is None:
            generator = self._generators[request_id] = torch.Generator(self._device)
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(seed)
        return generator


def mask_unlikely(logits: Tensor, params: ReadOnlyList[SamplingParams]) -> None:
    """Set to -inf, in place, what top_k and then top_p exclude. The most likely token always stays."""
    device, vocab_size = logits.device, logits.shape[-1]
    top_k = torch.tensor([p.top_k if p.top_k > 0 else vocab_size for p in params], device=device)[:, None]
    top_p = torch.tensor([p.top_p for p in params], device=device)[:, None]
    ordered, indices = logits.sort(dim=-1, descending=True, stable=True)
    ordered.masked_fill_(torch.arange(vocab_size, device=device) >= top_k, -torch.inf)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    # Rounding may put the sum before a token at 1 although top_p asks for all of them.
    ordered.masked_fill_((before >= top_p) & (top_p < 1), -torch.inf)
    logits.scatter_(1, indices, ordered)
