"""What a request wants changed about its logits before a token is chosen: penalties, biases, a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.seats import Seats
from engine.transfer import to_device

if TYPE_CHECKING:
    from engine.grammar_matcher import GrammarMatchers

__all__ = ["edit_logits"]


def edit_logits(row: Tensor, seats: Seats, seat: int, eos: frozenset[int], matchers: GrammarMatchers | None) -> None:
    """Change `row` [vocab_size] fp32 in place as the sequence in `seat` asks; all its tokens are known."""
    sequence = seats.sitting[seat]
    assert sequence is not None
    params, said = sequence.params, seats.tokens(seat)
    if params.repetition_penalty != 1:
        ids = tensor(np.unique(said), row)
        scores = row[ids]
        penalised = torch.where(scores > 0, scores / params.repetition_penalty, scores * params.repetition_penalty)
        row.index_copy_(0, ids, penalised)
    if params.presence_penalty or params.frequency_penalty:
        seen, counts = np.unique(said[sequence.num_prompt_tokens :], return_counts=True)
        penalty = params.presence_penalty + params.frequency_penalty * counts.astype(np.float32)
        row.index_add_(0, tensor(seen, row), to_device(-penalty.astype(np.float32), row.device))
    for token, bias in params.logit_bias:
        row[token] += bias
    if len(said) < seats.min_total[seat]:
        row[list(eos | params.stop_token_ids)] = -torch.inf
    if params.grammar is not None:
        assert matchers is not None
        matchers.apply(row[None], [sequence.request_id])


def tensor(ids: np.ndarray, like: Tensor) -> Tensor:
    return to_device(ids.astype(np.int64), like.device)
