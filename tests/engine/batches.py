"""Batches made by hand, for tests of models and kernels without a scheduler: ragged lengths, shuffled blocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.batch import Batch
from engine.kv_cache import KVLayout

__all__ = ["Pages", "make_batch"]


@dataclass
class Pages:
    """Blocks of a cache, handed out to sequences in a shuffled order. Block 0 is never used: tables are padded with 0,
    and what is read there by mistake should be seen."""

    layout: KVLayout

    def __post_init__(self) -> None:
        free = list(range(1, self.layout.num_blocks))
        random.Random(0).shuffle(free)
        self._free = free
        self.tables: dict[int, list[int]] = {}

    def table(self, sequence: int, tokens: int) -> list[int]:
        """Blocks of `sequence`, at least enough for `tokens` tokens."""
        table = self.tables.setdefault(sequence, [])
        while len(table) * self.layout.block_size < tokens:
            table.append(self._free.pop())
        return table


def make_batch(
    lengths: Sequence[tuple[int, int]],
    pages: Pages,
    *,
    tokens: Sequence[Sequence[int]] | None = None,
    sequences: Sequence[int] | None = None,
    wanted: Sequence[int] | None = None,
    device: str = "cpu",
) -> Batch:
    """A batch of sequences given as (context_len, query_len); single tokens come first.

    Args:
        tokens: all tokens of each sequence, of which the last query_len are taken up to context_len; zeros by default.
        sequences: which sequence of `pages` each is; 0, 1, 2 ... by default.
        wanted: rows whose logits are wanted; each sequence's last by default.
    """
    names = list(sequences) if sequences is not None else list(range(len(lengths)))
    order = sorted(range(len(lengths)), key=lambda index: lengths[index][1] != 1)
    if order != list(range(len(lengths))):
        raise ValueError("sequences with a single token come first")
    size = pages.layout.block_size
    token_ids, positions, slots, starts = [], [], [], [0]
    for index, (context, query) in enumerate(lengths):
        table = pages.table(names[index], context)
        for position in range(context - query, context):
            token_ids.append(tokens[index][position] if tokens is not None else 0)
            positions.append(position)
            slots.append(table[position // size] * size + position % size)
        starts.append(len(positions))
    widest = max(-(-context // size) for context, _ in lengths)
    tables = np.zeros((len(lengths), widest), np.int32)
    for index, (context, _) in enumerate(lengths):
        blocks = pages.table(names[index], context)[: -(-context // size)]
        tables[index, : len(blocks)] = blocks
    rows = wanted if wanted is not None else [start - 1 for start in starts[1:]]
    return Batch(
        token_ids=torch.tensor(token_ids, device=device),
        positions=torch.tensor(positions, device=device),
        slots=torch.tensor(slots, device=device),
        query_start=torch.tensor(starts, dtype=torch.int32, device=device),
        context_lens=torch.tensor([context for context, _ in lengths], dtype=torch.int32, device=device),
        block_tables=torch.from_numpy(tables).to(device),
        num_decodes=sum(query == 1 for _, query in lengths),
        max_query_len=max(query for _, query in lengths),
        max_context_len=max(context for context, _ in lengths),
        wanted=torch.tensor(rows, dtype=torch.int64, device=device),
    )
