# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""Attention of sequences with one new token each: their context is split over programs, and the parts are merged.

Reading keys and values is all that costs time here: one program reads a part of one key head's context once, for all
the query heads that share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.triton.paged import LOG2_E, PagedCache, load_tile, pad_to_power_of_2
from engine.kernels.triton.splits import MOST_SPLITS, Splits

__all__ = ["DecodeTile", "decode", "decode_tile"]


@dataclass(frozen=True, slots=True)
class DecodeTile:
    """Tokens read at once, and how many warps and pipeline stages do it."""

    tokens: int
    warps: int = 4
    stages: int = 3


def decode_tile(head_dim: int, element_bytes: int) -> DecodeTile:
    """At most 16 KiB of keys, and of values: four programs with 32 KiB each on their way then fit on a multiprocessor.

    Not more for fp8 either: the converted values would cost the registers of two of them.
    """
    return DecodeTile(max(16, min(128, 16384 // (pad_to_power_of_2(head_dim) * max(2, element_bytes)))))


@triton.jit
def part_of(context, splits, shortest, WINDOW: tl.constexpr, TILE: tl.constexpr):
    """First token seen, and tokens per part, a whole number of tiles."""
    first = 0
    if WINDOW > 0:
        first = tl.maximum(context - WINDOW, 0)
    length = tl.cdiv(tl.cdiv(context - first, splits), TILE) * TILE
    return first, tl.maximum(length, shortest)


@triton.jit(
    do_not_specialize=["table_width", "splits", "shortest"],
    do_not_specialize_on_alignment=["block_tables", "context_lens"],
)
def attend_part(
    queries,  # [sequences, num_heads, HEAD_DIM]
    cache,  # [2, num_kv_heads, slots, HEAD_DIM]
    scales,  # [2, num_kv_heads, slots]
    block_tables,  # [sequences, table_width]
    context_lens,  # [sequences]
    out,  # [sequences, num_heads, HEAD_DIM]
    parts,  # [sequences, num_heads, splits, HEAD_DIM] fp32
    part_weights,  # [sequences, num_heads, splits] fp32: log2 of the sum of exponentials
    table_width,
    plane_slots,
    scale_log2,
    splits,
    shortest,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SCALED: tl.constexpr,
    IEEE: tl.constexpr,
):
    kv_head, split, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    context = tl.load(context_lens + sequence)
    first, length = part_of(context, splits, shortest, WINDOW, TILE)
    begin = first + split * length
    # The first part writes even where nothing is seen: a padding row of a CUDA graph becomes 0, not what lay there.
    if (begin >= context) & (split > 0):
        return
    end = tl.minimum(begin + length, context)

    members = tl.arange(0, PADDED_GROUP)
    dims = tl.arange(0, PADDED_DIM)
    heads = (sequence * NUM_KV_HEADS + kv_head) * GROUP + members
    inside = (members < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    offsets = heads[:, None] * HEAD_DIM + dims[None, :]
    query = tl.load(queries + offsets, mask=inside, other=0.0)
    if SCALED:
        # One instruction turns two fp8 values into fp16; into bf16 it takes several, and some GPUs can't.
        query = query.to(tl.float16)

    key_plane = kv_head.to(tl.int64) * plane_slots
    value_plane = (kv_head + NUM_KV_HEADS).to(tl.int64) * plane_slots
    keys, values = cache + key_plane * HEAD_DIM, cache + value_plane * HEAD_DIM
    key_scales, value_scales = scales + key_plane, scales + value_plane
    table = block_tables + sequence * table_width

    best = tl.full([PADDED_GROUP], -1.0e30, tl.float32)
    total = tl.zeros([PADDED_GROUP], tl.float32)
    seen_values = tl.zeros([PADDED_GROUP, PADDED_DIM], tl.float32)
    for start in range(begin, end, TILE):
        tokens = start + tl.arange(0, TILE)
        seen = tokens < end
        blocks = tl.load(table + tokens // BLOCK_SIZE, mask=seen, other=0)
        rows = blocks.to(tl.int64) * BLOCK_SIZE + tokens % BLOCK_SIZE
        key, key_scale = load_tile(keys, key_scales, rows, seen, HEAD_DIM, PADDED_DIM, SCALED, True)
        value, value_scale = load_tile(values, value_scales, rows, seen, HEAD_DIM, PADDED_DIM, SCALED, True)
        scores = tl.dot(query, tl.trans(key.to(query.dtype)), input_precision="ieee" if IEEE else "tf32") * scale_log2
        if SCALED:
            scores = scores * key_scale[None, :]
        scores = tl.where(seen[None, :], scores, -1.0e30)
        higher = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        fading = tl.exp2(best - higher)
        total = total * fading + tl.sum(weights, 1)
        seen_values = seen_values * fading[:, None]
        if SCALED:
            # Relative to the largest of the tile: a small scale would leave the range of fp16.
            unit = tl.max(value_scale, 0)
            weights = weights * (value_scale / unit)[None, :]
            seen_values += tl.dot(weights.to(query.dtype), value.to(query.dtype)) * unit
        else:
            seen_values += tl.dot(weights.to(query.dtype), value, input_precision="ieee" if IEEE else "tf32")
        best = higher

    seen_values = seen_values / tl.maximum(total, 1.0e-30)[:, None]
    if length >= context - first:
        tl.store(out + offsets, seen_values.to(out.dtype.element_ty), mask=inside)
    else:
        part = heads * splits + split
        tl.store(parts + part[:, None] * HEAD_DIM + dims[None, :], seen_values, mask=inside)
        tl.store(part_weights + part, best + tl.log2(total), mask=members < GROUP)


@triton.jit(do_not_specialize=["splits", "shortest"], do_not_specialize_on_alignment=["context_lens"])
def merge_parts(
    parts,
    part_weights,
    context_lens,
    out,
    splits,
    shortest,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    TILE: tl.constexpr,
    MOST_SPLITS: tl.constexpr,
    WINDOW: tl.constexpr,
):
    sequence, head = tl.program_id(1).to(tl.int64), tl.program_id(0)
    context = tl.load(context_lens + sequence)
    first, length = part_of(context, splits, shortest, WINDOW, TILE)
    if length >= context - first:
        return
    row = sequence * NUM_HEADS + head
    parts_of_row = row * splits + tl.arange(0, MOST_SPLITS)
    dims = tl.arange(0, PADDED_DIM)
    present = tl.arange(0, MOST_SPLITS) * length < context - first
    logs = tl.load(part_weights + parts_of_row, mask=present, other=-float("inf"))
    weights = tl.exp2(logs - tl.max(logs, 0))
    inside = present[:, None] & (dims < HEAD_DIM)[None, :]
    values = tl.load(parts + parts_of_row[:, None] * HEAD_DIM + dims[None, :], mask=inside, other=0.0)
    merged = tl.sum(values * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + row * HEAD_DIM + dims, merged.to(out.dtype.element_ty), mask=dims < HEAD_DIM)


def decode(
    queries: Tensor,
    cache: PagedCache,
    layer: int,
    block_tables: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    num_heads: int,
    scale: float,
    splits: Splits,
    window: int = 0,
    tile: DecodeTile | None = None,
) -> None:
    """Let the first `len(context_lens)` rows of `queries` see their context; write `out`.

    Args:
        queries, out: [tokens, num_heads · head_dim], contiguous; queries rotated, keys and values stored already.
        block_tables: [sequences, blocks] int32, contiguous.
        context_lens: [sequences] int32; 0 for a row that stands for nothing: its output is 0.
        window: 0, or how many of the last tokens are seen.
    """
    layout = cache.layout
    tensor, sequences = cache.layers[layer], context_lens.shape[0]
    tile = tile or decode_tile(layout.head_dim, tensor.element_size())
    group, padded_dim = num_heads // layout.num_kv_heads, pad_to_power_of_2(layout.head_dim)
    # Empty where there is one part, and never something of another type: that would be another kernel.
    rows = sequences * num_heads * splits.count if splits.count > 1 else 0
    parts = torch.empty(rows * layout.head_dim, dtype=torch.float32, device=out.device)
    part_weights = torch.empty(rows, dtype=torch.float32, device=out.device)
    common = {
        "HEAD_DIM": layout.head_dim,
        "PADDED_DIM": padded_dim,
        "TILE": tile.tokens,
        "WINDOW": window,
    }
    attend_part[layout.num_kv_heads, splits.count, sequences](
        queries,
        tensor,
        cache.scales_of(layer),
        block_tables,
        context_lens,
        out,
        parts,
        part_weights,
        block_tables.stride(0),
        layout.num_blocks * layout.block_size,
        scale * LOG2_E,
        splits.count,
        splits.shortest,
        NUM_KV_HEADS=layout.num_kv_heads,
        GROUP=group,
        PADDED_GROUP=max(16, pad_to_power_of_2(group)),
        BLOCK_SIZE=layout.block_size,
        SCALED=cache.scales is not None,
        IEEE=queries.dtype == torch.float32,
        num_warps=tile.warps,
        num_stages=tile.stages,
        **common,
    )
    if splits.count > 1:
        merge_parts[num_heads, sequences](
            parts,
            part_weights,
            context_lens,
            out,
            splits.count,
            splits.shortest,
            NUM_HEADS=num_heads,
            MOST_SPLITS=MOST_SPLITS,
            **common,
        )
