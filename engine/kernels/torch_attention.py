"""Attention over the paged cache, in plain PyTorch: one product for many single tokens, SDPA for runs of a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from engine.kernels.protocol import Attention
from engine.kv_cache import KVCache, KVLayout
from engine.memory import GROUP_TOKENS

if TYPE_CHECKING:
    from engine.batch import Batch

__all__ = ["TorchPlan", "attend", "group_bounds"]

Index = NDArray[np.int64]

PADDING_WORTH_A_GROUP_TOKENS = 1024
"""Padded tokens that cost about as much as the calls of one more group (2 Zen 4 cores, 3 key heads of 64)."""


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences of similar length with one new token each, padded together."""

    rows: slice | Tensor
    "Their rows of the batch."
    block_rows: Tensor
    "What to gather of each layer, `KVLayout.block_rows`."
    bias: Tensor
    "0 where a token may be seen, -inf elsewhere: [sequences · num_kv_heads, 1, tokens]."


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Several consecutive tokens of one sequence."""

    rows: slice
    num_keys: int
    "Tokens gathered: up to the last one of the chunk, itself included."
    block_rows: Tensor | None
    "None where nothing precedes the chunk: it needs no cache then."
    bias: Tensor | None
    "0 where a token may be seen, -inf elsewhere: [tokens, num_keys]; None where only what follows is hidden."


@dataclass(frozen=True, slots=True)
class View:
    """What the rows of a batch see through one window."""

    groups: tuple[DecodeGroup, ...]
    chunks: tuple[PromptChunk, ...]


class TorchPlan:
    """How the rows of one batch attend. What a window or a rotary table asks for is made where it is first used."""

    def __init__(self, batch: Batch) -> None:
        self.num_decodes = batch.num_decodes
        self.starts: Index = batch.query_start.cpu().numpy().astype(np.int64)
        self.contexts: Index = batch.context_lens.cpu().numpy().astype(np.int64)
        self.tables: Index = batch.block_tables.cpu().numpy().astype(np.int64)
        self._slots: Index = batch.slots.cpu().numpy()
        self._positions = batch.positions
        self._token_rows: tuple[Tensor, Tensor] | None = None
        self._views: dict[int, View] = {}
        self._rotations: dict[int, tuple[Tensor, Tensor]] = {}

    def token_rows(self, layout: KVLayout) -> tuple[Tensor, Tensor]:
        """Where each new key and value goes, `KVLayout.token_rows`; and the blocks that are begun and not filled,
        `KVLayout.block_rows`: what an earlier owner left in them must go, as a NaN would survive the mask."""
        if self._token_rows is None:
            blocks, offsets = np.divmod(self._slots, layout.block_size)
            begun = np.setdiff1d(blocks[offsets == 0], blocks[offsets == layout.block_size - 1])
            written, cleared = layout.token_rows(self._slots), layout.block_rows(begun[None])
            device = self._positions.device
            self._token_rows = torch.from_numpy(written).to(device), torch.from_numpy(cleared).to(device)
        return self._token_rows

    def rotation(self, rotary: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of the batch's positions for `rotate`, [tokens, 1, head_dim] each."""
        if id(rotary) not in self._rotations:  # the model keeps its tables for longer than any plan lives
            cosines, sines = rotary.index_select(0, self._positions).to(dtype)[:, None].unbind(2)
            self._rotations[id(rotary)] = torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)
        return self._rotations[id(rotary)]

    def view(self, window: int, layout: KVLayout, dtype: torch.dtype) -> View:
        if window not in self._views:
            device = self._positions.device
            self._views[window] = View(
                decode_groups(self, window, layout, dtype, device), prompt_chunks(self, window, layout, dtype, device)
            )
        return self._views[window]


def group_bounds(lengths: Index) -> list[tuple[int, int]]:
    """Where to split ascending `lengths`: padding stays cheaper than one more group would be, and no group gathers more
    than GROUP_TOKENS."""
    bounds = []
    stop = len(lengths)
    while stop:
        longest = int(lengths[stop - 1])
        start = max(0, stop - max(1, GROUP_TOKENS // longest))
        padding = (longest - lengths[start : stop - 1]) * np.arange(start + 1, stop)
        worth_it = np.flatnonzero(padding > PADDING_WORTH_A_GROUP_TOKENS)
        if len(worth_it):
            start += int(worth_it[-1]) + 1
        bounds.append((start, stop))
        stop = start
    return bounds[::-1]


def decode_groups(
    plan: TorchPlan, window: int, layout: KVLayout, dtype: torch.dtype, device: torch.device
) -> tuple[DecodeGroup, ...]:
    contexts, size = plan.contexts[: plan.num_decodes], layout.block_size
    first_seen = np.maximum(contexts - window, 0) if window else np.zeros_like(contexts)
    first_block = first_seen // size
    spans = contexts - first_block * size
    order = np.argsort(spans, kind="stable")
    groups = []
    for start, stop in group_bounds(spans[order]):
        rows = order[start:stop]
        blocks = -(-int(spans[rows[-1]]) // size)
        # Padded with a block of its own: it must not see another's, not even masked.
        columns = np.minimum(first_block[rows, None] + np.arange(blocks), (contexts[rows, None] - 1) // size)
        positions = first_block[rows, None] * size + np.arange(blocks * size)
        hidden = (positions >= contexts[rows, None]) | (positions < first_seen[rows, None])
        bias = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(torch.from_numpy(hidden), -torch.inf)
        in_order = bool((rows == np.arange(start, stop)).all())
        groups.append(
            DecodeGroup(
                rows=slice(start, stop) if in_order else torch.from_numpy(rows).to(device),
                block_rows=torch.from_numpy(layout.block_rows(plan.tables[rows[:, None], columns])).to(device),
                bias=bias.repeat_interleave(layout.num_kv_heads, 0)[:, None].to(device),
            )
        )
    return tuple(groups)


def prompt_chunks(
    plan: TorchPlan, window: int, layout: KVLayout, dtype: torch.dtype, device: torch.device
) -> tuple[PromptChunk, ...]:
    chunks = []
    for index in range(plan.num_decodes, len(plan.contexts)):
        rows = slice(int(plan.starts[index]), int(plan.starts[index + 1]))
        context = int(plan.contexts[index])
        first = context - (rows.stop - rows.start)
        block_rows = bias = None
        base = 0
        if first:
            first_block = max(0, first + 1 - window) // layout.block_size if window else 0
            base = first_block * layout.block_size
            table = plan.tables[None, index, first_block : -(-context // layout.block_size)]
            block_rows = torch.from_numpy(layout.block_rows(table)).to(device)
        if first or (window and context > window):
            own = torch.arange(first, context, device=device)[:, None]
            seen = torch.arange(base, context, device=device)
            hidden = seen > own
            if window:
                hidden |= seen <= own - window
            bias = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
        chunks.append(PromptChunk(rows, context - base, block_rows, bias))
    return tuple(chunks)


def attend(attention: Attention, plan: TorchPlan, cache: KVCache, queries: Tensor, kv: Tensor) -> Tensor:
    """Write `kv` into the cache and let `queries` look at all they may see.

    Args:
        queries: [tokens, num_heads, head_dim], rotated.
        kv: [tokens, 2 · num_kv_heads, head_dim], contiguous, keys (rotated) first.

    Returns:
        [tokens, num_heads · head_dim]
    """
    layer, scale = attention.layer, attention.scale
    cache.write(layer, *plan.token_rows(cache.layout), kv)
    view = plan.view(attention.window, cache.layout, queries.dtype)
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    for group in view.groups:
        out[group.rows] = decode(group, cache, layer, queries[group.rows], scale)
    for chunk in view.chunks:
        out[chunk.rows] = prefill(chunk, cache, layer, queries[chunk.rows], kv[chunk.rows], scale)
    return out.flatten(1)


def decode(group: DecodeGroup, cache: KVCache, layer: int, queries: Tensor, scale: float) -> Tensor:
    """[sequences, num_heads, head_dim] → the same.

    The query heads that share a key are folded into rows of one product: bf16 SDPA with a query of length one is up to
    eight times slower on a CPU.
    """
    sequences, num_heads, head_dim = queries.shape
    keys, values = cache.gather(layer, group.block_rows, sequences).unbind(0)
    folded = queries.reshape(keys.shape[0], -1, head_dim)
    scores = torch.baddbmm(group.bias, folded, keys.transpose(1, 2), alpha=scale)
    return torch.bmm(scores.softmax(-1), values).view(sequences, num_heads, head_dim)


def prefill(chunk: PromptChunk, cache: KVCache, layer: int, queries: Tensor, kv: Tensor, scale: float) -> Tensor:
    """[tokens, num_heads, head_dim] → the same, each token seeing itself and what precedes it."""
    tokens, num_heads, head_dim = queries.shape
    if chunk.block_rows is None:
        keys, values = kv.view(tokens, 2, -1, head_dim).permute(1, 2, 0, 3).unbind(0)
    else:
        keys, values = cache.gather(layer, chunk.block_rows, 1)[:, :, : chunk.num_keys].unbind(0)
    num_kv_heads = keys.shape[0]
    folded = queries.view(tokens, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    shared = (-1, num_heads // num_kv_heads, -1, -1)
    seen = F.scaled_dot_product_attention(
        folded,
        keys[:, None].expand(shared),
        values[:, None].expand(shared),
        attn_mask=chunk.bias,
        is_causal=chunk.bias is None,
        scale=scale,
    )
    return seen.permute(2, 0, 1, 3).reshape(tokens, num_heads, head_dim)
