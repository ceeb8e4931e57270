# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""What stands between a layer's first product and its attention, in one pass: norms of queries and keys, rotation, and
storing keys and values in the cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.protocol import Attention
from engine.kernels.triton.paged import PagedCache, pad_to_power_of_2

__all__ = ["LARGEST_FP8", "rotate_and_store"]

LARGEST_FP8 = tl.constexpr(448.0)


@triton.jit(do_not_specialize_on_alignment=["positions", "slots"])
def rotate_heads(
    qkv,  # [tokens, NUM_HEADS + 2 · NUM_KV_HEADS, HEAD_DIM]
    queries,  # [tokens, NUM_HEADS, HEAD_DIM]
    cache,  # [2, NUM_KV_HEADS, slots, HEAD_DIM]
    scales,  # [2, NUM_KV_HEADS, slots] fp32
    positions,  # [tokens]
    slots,  # [tokens]; below 0: not stored
    rotary,  # [max_model_len, 2, HEAD_DIM / 2] fp32
    query_norm,  # [HEAD_DIM]
    key_norm,  # [HEAD_DIM]
    plane_slots,
    eps,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED_HALF: tl.constexpr,
    HEADS: tl.constexpr,
    QUERY_NORM: tl.constexpr,
    KEY_NORM: tl.constexpr,
    SCALED: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    dims = tl.arange(0, PADDED_HALF)
    HALF: tl.constexpr = HEAD_DIM // 2
    WIDTH: tl.constexpr = NUM_HEADS + 2 * NUM_KV_HEADS
    in_half = dims < HALF
    inside = (heads < WIDTH)[:, None] & in_half[None, :]
    is_query, is_value = heads < NUM_HEADS, heads >= NUM_HEADS + NUM_KV_HEADS

    offsets = heads[:, None] * HEAD_DIM + dims[None, :]
    source = qkv + token * (WIDTH * HEAD_DIM) + offsets
    low = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)

    if QUERY_NORM or KEY_NORM:
        inverse = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / HEAD_DIM + eps)[:, None]
        low_weight = tl.full([HEADS, PADDED_HALF], 1.0, tl.float32)
        high_weight = low_weight
        if QUERY_NORM:
            chosen = is_query[:, None]
            weight = tl.load(query_norm + dims, mask=in_half, other=0.0).to(tl.float32)
            low_weight = tl.where(chosen, inverse * weight[None, :], low_weight)
            weight = tl.load(query_norm + HALF + dims, mask=in_half, other=0.0).to(tl.float32)
            high_weight = tl.where(chosen, inverse * weight[None, :], high_weight)
        if KEY_NORM:
            chosen = (~(is_query | is_value))[:, None]
            weight = tl.load(key_norm + dims, mask=in_half, other=0.0).to(tl.float32)
            low_weight = tl.where(chosen, inverse * weight[None, :], low_weight)
            weight = tl.load(key_norm + HALF + dims, mask=in_half, other=0.0).to(tl.float32)
            high_weight = tl.where(chosen, inverse * weight[None, :], high_weight)
        low, high = low * low_weight, high * high_weight

    angles = rotary + tl.load(positions + token) * HEAD_DIM + dims
    cosines = tl.load(angles, mask=in_half, other=1.0)[None, :]
    sines = tl.load(angles + HALF, mask=in_half, other=0.0)[None, :]
    cosines = tl.where(is_value[:, None], 1.0, cosines)
    sines = tl.where(is_value[:, None], 0.0, sines)
    low, high = low * cosines - high * sines, high * cosines + low * sines

    target = queries + token * (NUM_HEADS * HEAD_DIM) + offsets
    is_mine = inside & is_query[:, None]
    tl.store(target, low.to(queries.dtype.element_ty), mask=is_mine)
    tl.store(target + HALF, high.to(queries.dtype.element_ty), mask=is_mine)

    slot = tl.load(slots + token)
    # Planes of the cache lie in the order in which keys and values come here.
    stored = (heads < WIDTH) & ~is_query & (slot >= 0)
    row = (heads - NUM_HEADS).to(tl.int64) * plane_slots + slot
    if SCALED:
        largest = tl.maximum(tl.max(tl.abs(low), 1), tl.max(tl.abs(high), 1))
        factor = tl.maximum(largest, 1.0e-12) / LARGEST_FP8
        low, high = low / factor[:, None], high / factor[:, None]
        tl.store(scales + row, factor, mask=stored)
    target = cache + row[:, None] * HEAD_DIM + dims[None, :]
    is_mine = stored[:, None] & in_half[None, :]
    tl.store(target, low.to(cache.dtype.element_ty), mask=is_mine)
    tl.store(target + HALF, high.to(cache.dtype.element_ty), mask=is_mine)


def rotate_and_store(attention: Attention, cache: PagedCache, positions: Tensor, slots: Tensor, qkv: Tensor) -> Tensor:
    """Queries [tokens, num_heads · head_dim], normalised and rotated; keys and values of `qkv` go into the cache.

    Args:
        positions, slots: [tokens] int64; a slot below 0 belongs to a row that stands for nothing and isn't stored.
        qkv: [tokens, (num_heads + 2 · num_kv_heads) · head_dim], contiguous.
    """
    tokens, head_dim, tensor = qkv.shape[0], attention.head_dim, cache.layers[attention.layer]
    width = attention.num_heads + 2 * attention.num_kv_heads
    half = pad_to_power_of_2(head_dim // 2)
    heads = max(1, min(512 // half, pad_to_power_of_2(width)))
    queries = torch.empty((tokens, attention.num_heads * head_dim), dtype=qkv.dtype, device=qkv.device)
    rotate_heads[tokens, -(-width // heads)](
        qkv,
        queries,
        tensor,
        cache.scales_of(attention.layer),
        positions,
        slots,
        attention.rotary,
        qkv if attention.query_norm is None else attention.query_norm,
        qkv if attention.key_norm is None else attention.key_norm,
        cache.layout.num_blocks * cache.layout.block_size,
        attention.eps,
        NUM_HEADS=attention.num_heads,
        NUM_KV_HEADS=attention.num_kv_heads,
        HEAD_DIM=head_dim,
        PADDED_HALF=half,
        HEADS=heads,
        QUERY_NORM=attention.query_norm is not None,
        KEY_NORM=attention.key_norm is not None,
        SCALED=cache.scales is not None,
        num_warps=4,
    )
    return queries
