"""TokenLogprobs: how likely a token was, and what else would have been."""

from __future__ import annotations

from collections.abc import Sequence as ReadOnlyList
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TokenLogprobs", "logprobs_of"]

ROWS_AT_ONCE = 64
"""Rows whose log-probabilities over the whole vocabulary are held in fp32 at a time."""


class TokenLogprobs(NamedTuple):
    """Log-probabilities under the model itself: before temperature, penalties, masks."""

    token_id: int
    logprob: float
    rank: int
    "1 for the most likely."
    top: tuple[tuple[int, float], ...]
    "(token id, log-probability) of the most likely ones, in that order."


def logprobs_of(logits: Tensor, token_ids: Tensor, counts: ReadOnlyList[int]) -> list[TokenLogprobs]:
    """For each row of `logits` [n, vocab_size] its token of `token_ids` [n] and the `counts[row]` most likely ones."""
    found: list[TokenLogprobs] = []
    for start in range(0, len(counts), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        scores, chosen = logits[rows].float().log_softmax(-1), token_ids[rows, None]
        own = scores.gather(1, chosen)
        ranks = (scores > own).sum(1) + 1
        top = scores.topk(max(1, max(counts[rows])), -1)
        columns = (chosen[:, 0], own[:, 0], ranks, top.indices, top.values)
        for count, token, logprob, rank, ids, values in zip(
            counts[rows], *(column.tolist() for column in columns), strict=True
        ):
            found.append(TokenLogprobs(token, logprob, rank, tuple(zip(ids[:count], values[:count], strict=True))))
    return found
