"""Sampler: the next token of each sequence from its logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.kernels import Draw
from engine.logit_edits import edit_logits
from engine.randomness import uniform
from engine.seats import Index, Seats
from engine.transfer import to_device

if TYPE_CHECKING:
    from engine.grammar_matcher import GrammarMatchers

__all__ = ["Sampler"]

CANDIDATES = (64, 1024)
"""How many of the most likely tokens are looked at before the whole vocabulary is sorted: the nucleus is rarely larger.
How many depends on the request's own parameters, so that its neighbours don't matter."""


class Sampler:
    """Chooses tokens. What a row says depends on its logits, its parameters, its seed and its position alone."""

    def __init__(
        self, seats: Seats, eos: frozenset[int], matchers: GrammarMatchers | None = None, draw: Draw | None = None
    ) -> None:
        """`draw`: the device's own way to draw by temperature alone, if it has one."""
        self._seats = seats
        self._draw_plainly = draw
        self._eos = eos
        self._matchers = matchers

    def sample(self, logits: Tensor, rows: Index, positions: Index) -> Tensor:
        """Token ids [n] for `logits` [n, vocab_size].

        Args:
            rows: seat of each row.
            positions: where in its sequence the token will stand.
        """
        seats = self._seats
        edited, drawn = seats.edits_logits[rows], seats.temperature[rows] > 0
        if self._draw_plainly and not (edited.any() or self._is_filtered(rows)):
            points = uniform(seats.seed[rows], positions).astype(np.float32)
            heat = to_device(seats.temperature[rows], logits.device)
            return self._draw_plainly(logits, heat, to_device(points, logits.device))
        # The lowest index among equals; in bf16 max is four times as fast as argmax on a CPU.
        tokens = logits.max(-1).indices
        special = np.flatnonzero(edited | drawn)
        if not len(special):
            return tokens
        where = to_device(special, logits.device)
        scores = logits.index_select(0, where).float()
        for row in np.flatnonzero(edited[special]).tolist():
            edit_logits(scores[row], seats, int(rows[special[row]]), self._eos, self._matchers)
        chosen = scores.max(-1).indices
        if drawn.any():
            drawing = np.flatnonzero(drawn[special])
            seat = rows[special[drawing]]
            numbers = uniform(seats.seed[seat], positions[special[drawing]])
            index = to_device(drawing, logits.device)
            chosen.index_copy_(0, index, self._draw(scores.index_select(0, index), seat, numbers))
        return tokens.index_copy_(0, where, chosen)

    def _is_filtered(self, rows: Index) -> bool:
        seats = self._seats
        return bool((seats.top_k[rows] > 0).any() or (seats.top_p[rows] < 1).any() or seats.min_p[rows].any())

    def _draw(self, scores: Tensor, seat: Index, numbers: np.ndarray) -> Tensor:
        """Token ids [n] drawn from `scores` [n, vocab_size], one of the uniform `numbers` for each."""
        seats, device = self._seats, scores.device

        def column(values: np.ndarray) -> Tensor:
            return to_device(values, device)[:, None]

        # Relative to the largest, so that a tiny temperature can't overflow; and min_p becomes a plain threshold.
        scores.sub_(scores.amax(-1, keepdim=True)).div_(column(seats.temperature[seat]))
        if seats.min_p[seat].any():
            least = np.log(np.maximum(seats.min_p[seat], np.finfo(np.float32).tiny))
            scores.masked_fill_((scores < column(least)) & column(seats.min_p[seat] > 0), -torch.inf)
        point = column(numbers)
        top_k, top_p = seats.top_k[seat], seats.top_p[seat]
        reach = np.array([*CANDIDATES, scores.shape[-1]])
        likely = reach[np.searchsorted(CANDIDATES, np.where(top_k > 0, top_k, CANDIDATES[-1]))]
        counts = np.where((top_k == 0) & (top_p >= 1), 0, likely)
        tokens = torch.empty(len(seat), dtype=torch.int64, device=device)
        for count in np.unique(counts).tolist():
            group = np.flatnonzero(counts == count)
            index = to_device(group, device)
            own, own_point = scores.index_select(0, index), point.index_select(0, index)
            if count:
                drawn = draw_likely(own, column(top_k[group]), column(top_p[group]), own_point, count)
            else:
                drawn = invert(own.softmax(-1), own_point)
            tokens.index_copy_(0, index, drawn)
        return tokens


def draw_likely(scores: Tensor, top_k: Tensor, top_p: Tensor, point: Tensor, count: int) -> Tensor:
    """Draw within top_k (0: all) and then top_p, looking at the `count` most likely tokens if that is enough."""
    vocab_size = scores.shape[-1]
    values, ids = scores.topk(min(count, vocab_size), -1)
    beyond = (top_k > 0) & (torch.arange(values.shape[-1], device=scores.device) >= top_k)
    values.masked_fill_(beyond, -torch.inf)
    whole = torch.where(top_k > 0, values.logsumexp(-1, keepdim=True), scores.logsumexp(-1, keepdim=True))
    likely = (values - whole).exp()
    before = likely.cumsum(-1, dtype=torch.float64) - likely
    lacking = (top_k == 0) & (before[:, -1:] + likely[:, -1:] < top_p)
    if values.shape[-1] < vocab_size and lacking.any():
        tokens = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
        for rows, enough in ((~lacking[:, 0], count), (lacking[:, 0], vocab_size)):
            tokens[rows] = draw_likely(scores[rows], top_k[rows], top_p[rows], point[rows], enough)
        return tokens
    # The most likely token always stays: nothing is before it.
    likely.masked_fill_((before >= top_p) & (top_p < 1), 0)
    return ids.gather(1, invert(likely, point)[:, None])[:, 0]


def invert(weights: Tensor, point: Tensor) -> Tensor:
    """Where the share `point` [n, 1] of the sum of `weights` [n, m] is reached: index i with probability wᵢ / Σw."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    index = torch.searchsorted(sums, point * sums[:, -1:], right=True)[:, 0]
    return index.clamp_max_(weights.shape[-1] - 1)
