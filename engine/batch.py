"""Batch: one step as tensors."""

from __future__ import annotations

from array import array
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention import AttentionPlan, DecodeGroup, PromptChunk
from engine.kv_cache import KVLayout
from engine.memory import GROUP_TOKENS
from engine.scheduler import Scheduled
from engine.sequence import Sequence

__all__ = ["Batch", "build_batch"]

Index = NDArray[np.int64]

PADDING_WORTH_A_GROUP_TOKENS = 1024
"""Padded tokens that cost about as much as the calls of one more group (2 Zen 4 cores, 3 key heads of 64)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of all scheduled sequences, one after the other: single tokens first, by length, then runs of a prompt."""

    token_ids: Tensor
    positions: Tensor
    plan: AttentionPlan
    last_rows: Tensor
    "Row of the last token of each sequence in `sampled`."
    sampled: tuple[Sequence, ...]
    "Sequences whose next token this step yields."


def build_batch(
    scheduled: ReadOnlyList[Scheduled], layout: KVLayout, dtype: torch.dtype, device: torch.device
) -> Batch:
    """The tensors of one step. Nothing here loops over tokens."""
    singles = sorted((item for item in scheduled if item.num_tokens == 1), key=lambda i: i.sequence.num_computed_tokens)
    runs = [item for item in scheduled if item.num_tokens > 1]
    ordered = [*singles, *runs]
    ends = np.cumsum([item.num_tokens for item in ordered])
    num_tokens = int(ends[-1])
    token_ids, positions, slots = (np.empty(num_tokens, np.int64) for _ in range(3))
    for item, end in zip(ordered, ends.tolist(), strict=True):
        start, sequence = end - item.num_tokens, item.sequence
        first = sequence.num_computed_tokens
        token_ids[start:end] = view(sequence.token_ids)[first : first + item.num_tokens]
        where = np.arange(first, first + item.num_tokens)
        positions[start:end] = where
        slots[start:end] = view(sequence.block_table)[where // layout.block_size] * layout.block_size
    slots += positions % layout.block_size

    def tensor(values: Index) -> Tensor:
        return torch.from_numpy(values).to(device)

    groups = tuple(
        decode_group(singles[start:stop], start, layout, dtype, device) for start, stop in group_bounds(singles)
    )
    chunks = tuple(
        prompt_chunk(item, end - item.num_tokens, layout, dtype, device)
        for item, end in zip(runs, ends[len(singles) :].tolist(), strict=True)
    )
    yielding = [(item.sequence, end - 1) for item, end in zip(ordered, ends.tolist(), strict=True) if item.yields_token]
    return Batch(
        token_ids=tensor(token_ids),
        positions=tensor(positions),
        plan=AttentionPlan(tensor(layout.token_rows(slots)), groups, chunks),
        last_rows=tensor(np.array([row for _, row in yielding], np.int64)),
        sampled=tuple(sequence for sequence, _ in yielding),
    )


def group_bounds(singles: ReadOnlyList[Scheduled]) -> list[tuple[int, int]]:
    """Where to split single tokens, sorted by context length: padding stays cheaper than one more group would be, and
    no group gathers more than GROUP_TOKENS."""
    bounds = []
    stop = len(singles)
    while stop:
        longest = singles[stop - 1].sequence.num_computed_tokens + 1
        start = max(0, stop - max(1, GROUP_TOKENS // longest))
        for index in range(stop - 1, start, -1):
            shorter = singles[index - 1].sequence.num_computed_tokens + 1
            if (longest - shorter) * index > PADDING_WORTH_A_GROUP_TOKENS:
                start = index
                break
        bounds.append((start, stop))
        stop = start
    return bounds[::-1]


def decode_group(
    singles: ReadOnlyList[Scheduled], start: int, layout: KVLayout, dtype: torch.dtype, device: torch.device
) -> DecodeGroup:
    lengths = torch.tensor([item.sequence.num_computed_tokens + 1 for item in singles])
    blocks = -(-int(lengths.max()) // layout.block_size)
    tables = np.zeros((len(singles), blocks), np.int64)
    for row, item in enumerate(singles):
        known = view(item.sequence.block_table)[:blocks]
        tables[row, : len(known)] = known
    hidden = torch.arange(blocks * layout.block_size) >= lengths[:, None]
    bias = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)
    return DecodeGroup(
        start=start,
        stop=start + len(singles),
        block_rows=torch.from_numpy(layout.block_rows(tables)).to(device),
        bias=bias.repeat_interleave(layout.num_kv_heads, 0)[:, None].to(device),
    )


def prompt_chunk(
    item: Scheduled, start: int, layout: KVLayout, dtype: torch.dtype, device: torch.device
) -> PromptChunk:
    stop = start + item.num_tokens
    first = item.sequence.num_computed_tokens
    context_len = first + item.num_tokens
    if not first:
        return PromptChunk(start, stop, context_len, None, None)
    blocks = -(-context_len // layout.block_size)
    tables = view(item.sequence.block_table)[None, :blocks].astype(np.int64)
    own = torch.arange(first, context_len, device=device)
    hidden = torch.arange(context_len, device=device) > own[:, None]
    bias = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
    return PromptChunk(start, stop, context_len, torch.from_numpy(layout.block_rows(tables)).to(device), bias)


def view(values: array[int]) -> NDArray[np.int32]:
    """`values` without a copy. It must not outlive the step: an array can't grow while it is looked at."""
    return np.frombuffer(values, np.int32)
