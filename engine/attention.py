"""Attention over the paged cache, in plain PyTorch: one product for many single tokens, SDPA for runs of a prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv_cache import KVCache

__all__ = ["AttentionPlan", "DecodeGroup", "PromptChunk", "attend"]


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences of similar length with one new token each: rows `start` to `stop` of the batch, padded together."""

    start: int
    stop: int
    block_rows: Tensor
    "What to gather of each layer, `KVLayout.block_rows`."
    bias: Tensor
    "0 where a token may be seen, -inf in the padding: [sequences · num_kv_heads, 1, tokens]."


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Several consecutive tokens of one sequence: rows `start` to `stop` of the batch."""

    start: int
    stop: int
    context_len: int
    "Tokens seen by the last one, itself included."
    block_rows: Tensor | None
    "None where nothing precedes the chunk: it needs no cache then."
    bias: Tensor | None
    "0 up to each token's own position, -inf after it: [tokens, context_len]; None where nothing precedes the chunk."


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How the rows of one batch attend; the same for every layer."""

    token_rows: Tensor
    "Where each new key and value goes, `KVLayout.token_rows`."
    groups: tuple[DecodeGroup, ...]
    chunks: tuple[PromptChunk, ...]


def attend(plan: AttentionPlan, cache: KVCache, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
    """Write `kv` into the cache and let `queries` look at all they may see.

    Args:
        queries: [tokens, num_heads, head_dim], rotated.
        kv: [tokens, 2 · num_kv_heads, head_dim], contiguous, keys (rotated) first.

    Returns:
        [tokens, num_heads · head_dim]
    """
    cache.write(layer, plan.token_rows, kv)
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    for group in plan.groups:
        out[group.start : group.stop] = decode(group, cache, layer, queries[group.start : group.stop])
    for chunk in plan.chunks:
        rows = slice(chunk.start, chunk.stop)
        out[rows] = prefill(chunk, cache, layer, queries[rows], kv[rows])
    return out.flatten(1)


def decode(group: DecodeGroup, cache: KVCache, layer: int, queries: Tensor) -> Tensor:
    """[sequences, num_heads, head_dim] → the same.

    The query heads that share a key are folded into rows of one product: bf16 SDPA with a query of length one is up to
    eight times slower on a CPU.
    """
    sequences, num_heads, head_dim = queries.shape
    keys, values = cache.gather(layer, group.block_rows, sequences).unbind(0)
    folded = queries.reshape(keys.shape[0], -1, head_dim)
    scores = torch.baddbmm(group.bias, folded, keys.transpose(1, 2), alpha=head_dim**-0.5)
    return torch.bmm(scores.softmax(-1), values).view(sequences, num_heads, head_dim)


def prefill(chunk: PromptChunk, cache: KVCache, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
    """[tokens, num_heads, head_dim] → the same, each token seeing itself and what precedes it."""
    tokens, num_heads, head_dim = queries.shape
    if chunk.block_rows is None:
        keys, values = kv.view(tokens, 2, -1, head_dim).permute(1, 2, 0, 3).unbind(0)
    else:
        keys, values = cache.gather(layer, chunk.block_rows, 1)[:, :, : chunk.context_len].unbind(0)
    num_kv_heads = keys.shape[0]
    folded = queries.view(tokens, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    shared = (-1, num_heads // num_kv_heads, -1, -1)
    seen = F.scaled_dot_product_attention(
        folded,
        keys[:, None].expand(shared),
        values[:, None].expand(shared),
        attn_mask=chunk.bias,
        is_causal=chunk.bias is None,
    )
    return seen.permute(2, 0, 1, 3).reshape(tokens, num_heads, head_dim)
