"""Batch: one step as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.scheduler import Step
from engine.seats import Index, Seats
from engine.transfer import to_device

__all__ = ["Batch", "build_batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of all scheduled sequences, one after the other; sequences with a single token come first."""

    token_ids: Tensor
    "[tokens] int64."
    positions: Tensor
    "[tokens] int64."
    slots: Tensor
    "[tokens] int64: block · block_size + offset, where each token's key and value go."
    query_start: Tensor
    "[sequences + 1] int32, first row of each sequence."
    context_lens: Tensor
    "[sequences] int32: tokens seen by a sequence's last token, itself included."
    block_tables: Tensor
    "[sequences, blocks] int32, padded on the right with 0."
    num_decodes: int
    "Leading sequences with exactly one token."
    max_query_len: int
    max_context_len: int
    wanted: Tensor
    "[n] int64, rows whose logits are wanted: of the yielding sequences, then of prompts that want log-probabilities."


def build_batch(step: Step, seats: Seats, device: torch.device) -> Batch:
    """The tensors of one step. Nothing here loops over tokens or sequences."""
    count, first = step.count, step.first
    ends = count.cumsum()
    starts = ends - count
    rows = np.repeat(step.seats, count)
    positions = np.arange(int(ends[-1])) + np.repeat(first - starts, count)
    size = seats.block_size
    blocks = seats.block_table[rows, positions // size].astype(np.int64)
    context_lens = first + count
    num_blocks = -(-context_lens // size)
    widest = int(num_blocks.max())
    tables = np.where(np.arange(widest) < num_blocks[:, None], seats.block_table[step.seats, :widest], 0)

    def tensor(values: NDArray[Any]) -> Tensor:
        return to_device(values, device)

    return Batch(
        token_ids=tensor(seats.token_ids[rows, positions].astype(np.int64)),
        positions=tensor(positions),
        slots=tensor(blocks * size + positions % size),
        query_start=tensor(np.concatenate(([0], ends)).astype(np.int32)),
        context_lens=tensor(context_lens.astype(np.int32)),
        block_tables=tensor(tables.astype(np.int32, copy=False)),
        num_decodes=int((count == 1).sum()),
        max_query_len=int(count.max()),
        max_context_len=int(context_lens.max()),
        wanted=tensor(np.concatenate((ends[step.yields] - 1, prompt_rows(step, seats)[0]))),
    )


def prompt_rows(step: Step, seats: Seats) -> tuple[Index, Index, Index]:
    """Rows that tell log-probabilities of a prompt, their seats, and the positions of the tokens they are about."""
    asking = np.flatnonzero(seats.wants_prompt_logprobs[step.seats])
    if not len(asking):
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    starts = step.count.cumsum() - step.count
    told = np.minimum(step.count, seats.num_prompt[step.seats] - 1 - step.first).clip(0)[asking]
    offsets = np.arange(int(told.sum())) - np.repeat(told.cumsum() - told, told)
    rows = np.repeat(starts[asking], told) + offsets
    return rows, np.repeat(step.seats[asking], told), np.repeat(step.first[asking], told) + offsets + 1
