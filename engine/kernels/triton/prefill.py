# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""Attention of sequences with several new tokens each, over what they have in the cache: runs of a prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.triton.paged import LOG2_E, PagedCache, load_tile, pad_to_power_of_2

__all__ = ["PrefillTile", "prefill", "prefill_tile"]


@dataclass(frozen=True, slots=True)
class PrefillTile:
    """Rows (a token's query heads of one group are a row each) and tokens of one product, its warps and stages."""

    rows: int
    tokens: int
    warps: int
    stages: int


def prefill_tile(
    head_dim: int, element_bytes: int, group: int, tokens: int, max_query_len: int, programs: int, processors: int
) -> PrefillTile:
    """What fits 96 KiB of shared memory; smaller where there are few rows, or too few for all multiprocessors."""
    padded = pad_to_power_of_2(head_dim) * element_bytes
    most = 128 if padded <= 256 else 64 if padded <= 512 else 32
    least = max(16, pad_to_power_of_2(group))
    rows = max(least, min(most, pad_to_power_of_2(max_query_len * group)))
    if rows == 128 and group <= 64 and -(-tokens * group // rows) * programs < processors:
        rows = 64
    width = max(16, min(64, 16384 // padded))
    return PrefillTile(rows, width, 8 if rows == 128 else 4, 3 if padded <= 256 else 2)


@triton.jit
def see_tiles(
    state_best,
    state_total,
    state_values,
    query,
    positions,
    begin,
    end,
    table,
    keys,
    values,
    key_scales,
    value_scales,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SCALED: tl.constexpr,
    MASKED: tl.constexpr,
    IEEE: tl.constexpr,
):
    """Go on with the softmax over tokens `begin` to `end`. Without MASKED every row sees all of them."""
    best, total, seen_values = state_best, state_total, state_values
    for start in range(begin, end, TILE):
        tokens = start + tl.arange(0, TILE)
        seen = tokens < end
        if MASKED:
            blocks = tl.load(table + tokens // BLOCK_SIZE, mask=seen, other=0)
        else:
            blocks = tl.load(table + tokens // BLOCK_SIZE)
        rows = blocks.to(tl.int64) * BLOCK_SIZE + tokens % BLOCK_SIZE
        key, key_scale = load_tile(keys, key_scales, rows, seen, HEAD_DIM, PADDED_DIM, SCALED, MASKED)
        value, value_scale = load_tile(values, value_scales, rows, seen, HEAD_DIM, PADDED_DIM, SCALED, MASKED)
        scores = tl.dot(query, tl.trans(key.to(query.dtype)), input_precision="ieee" if IEEE else "tf32") * scale_log2
        if SCALED:
            scores = scores * key_scale[None, :]
        if MASKED:
            visible = tokens[None, :] <= positions[:, None]
            if WINDOW > 0:
                visible &= tokens[None, :] > positions[:, None] - WINDOW
            # Finite: a row that has seen nothing yet takes weights of 1 here, which fade to 0 once it sees a token.
            scores = tl.where(visible & seen[None, :], scores, -1.0e30)
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
    return best, total, seen_values


@triton.jit(
    do_not_specialize=["num_decodes", "num_prefills", "table_width"],
    do_not_specialize_on_alignment=["block_tables", "context_lens", "query_start"],
)
def attend_run(
    queries,  # [tokens, num_heads, HEAD_DIM]
    cache,  # [2, num_kv_heads, slots, HEAD_DIM]
    scales,  # [2, num_kv_heads, slots]
    block_tables,  # [sequences, table_width]
    context_lens,  # [sequences]
    query_start,  # [sequences + 1]
    out,  # [tokens, num_heads, HEAD_DIM]
    num_decodes,
    num_prefills,
    table_width,
    plane_slots,
    scale_log2,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SCALED: tl.constexpr,
    IEEE: tl.constexpr,
):
    # Late runs see the longest context: they start first.
    chunk = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    RUN: tl.constexpr = ROWS // GROUP
    origin = tl.load(query_start + num_decodes)
    # Sequence i owns the chunks from (its first row) // RUN + i on: enough for it, whatever lengths precede it.
    low, high = 0, num_prefills
    while low < high:
        middle = (low + high) // 2
        if (tl.load(query_start + num_decodes + middle) - origin) // RUN + middle <= chunk:
            low = middle + 1
        else:
            high = middle
    index = low - 1
    sequence = (num_decodes + index).to(tl.int64)
    first_row = tl.load(query_start + sequence)
    num_queries = tl.load(query_start + sequence + 1) - first_row
    first = (chunk - (first_row - origin) // RUN - index) * RUN
    if first >= num_queries:
        return
    before = tl.load(context_lens + sequence) - num_queries

    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, PADDED_DIM)
    runs = first + rows // GROUP
    positions = before + runs
    inside = ((runs < num_queries) & (rows < RUN * GROUP))[:, None] & (dims < HEAD_DIM)[None, :]
    heads = (first_row.to(tl.int64) + runs) * (NUM_KV_HEADS * GROUP) + kv_head * GROUP + rows % GROUP
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

    best = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    seen_values = tl.zeros([ROWS, PADDED_DIM], tl.float32)
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(before + first - WINDOW + 1, 0)
    end = before + tl.minimum(first + RUN, num_queries)
    if WINDOW > 0:
        shared = begin
    else:
        shared = (before + first + 1) // TILE * TILE
        best, total, seen_values = see_tiles(
            best, total, seen_values, query, positions, begin, shared, table, keys, values, key_scales, value_scales,
            scale_log2, HEAD_DIM, PADDED_DIM, BLOCK_SIZE, TILE, WINDOW, SCALED, False, IEEE,
        )  # fmt: skip
    best, total, seen_values = see_tiles(
        best, total, seen_values, query, positions, shared, end, table, keys, values, key_scales, value_scales,
        scale_log2, HEAD_DIM, PADDED_DIM, BLOCK_SIZE, TILE, WINDOW, SCALED, True, IEEE,
    )  # fmt: skip
    seen_values = seen_values / total[:, None]
    tl.store(out + offsets, seen_values.to(out.dtype.element_ty), mask=inside)


def prefill(
    queries: Tensor,
    cache: PagedCache,
    layer: int,
    block_tables: Tensor,
    context_lens: Tensor,
    query_start: Tensor,
    out: Tensor,
    *,
    num_heads: int,
    scale: float,
    num_decodes: int,
    max_query_len: int,
    processors: int,
    window: int = 0,
) -> None:
    """Let the rows after the first `num_decodes` see what precedes them and themselves; write `out`.

    Args:
        queries, out: [tokens, num_heads · head_dim], contiguous; queries rotated, keys and values stored already.
        block_tables: [sequences, blocks] int32, contiguous.
        context_lens: [sequences] int32, the new tokens included.
        query_start: [sequences + 1] int32.
        window: 0, or how many of the last tokens are seen.
    """
    layout, tensor = cache.layout, cache.layers[layer]
    sequences, tokens = context_lens.shape[0] - num_decodes, queries.shape[0] - num_decodes
    group = num_heads // layout.num_kv_heads
    tile = prefill_tile(
        layout.head_dim, queries.element_size(), group, tokens, max_query_len, layout.num_kv_heads, processors
    )
    attend_run[tokens // (tile.rows // group) + sequences, layout.num_kv_heads](
        queries,
        tensor,
        cache.scales_of(layer),
        block_tables,
        context_lens,
        query_start,
        out,
        num_decodes,
        sequences,
        block_tables.stride(0),
        layout.num_blocks * layout.block_size,
        scale * LOG2_E,
        NUM_KV_HEADS=layout.num_kv_heads,
        GROUP=group,
        HEAD_DIM=layout.head_dim,
        PADDED_DIM=pad_to_power_of_2(layout.head_dim),
        BLOCK_SIZE=layout.block_size,
        ROWS=tile.rows,
        TILE=tile.tokens,
        WINDOW=window,
        SCALED=cache.scales is not None,
        IEEE=queries.dtype == torch.float32,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
