"""KVCache: the keys and values of every block, one tensor per layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["KVCache", "KVLayout"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KVLayout:
    """Where a token's key and value lie: head-major, so that gathering a sequence yields contiguous heads.

    A layer is [2 (key, value), num_kv_heads, num_blocks, block_size, head_dim]. Gathering takes rows of a whole block,
    writing takes rows of one token. A head-major gather is 8 to 11 times faster to multiply with than a view of a
    token-major one.
    """

    num_blocks: int
    block_size: int
    num_kv_heads: int
    head_dim: int

    @property
    def planes(self) -> Index:
        """Number of each (key or value, head) pair, [2, num_kv_heads]."""
        return np.arange(2 * self.num_kv_heads, dtype=np.int64).reshape(2, self.num_kv_heads)

    def block_rows(self, tables: Index) -> Index:
        """Rows that gather `tables` [sequences, blocks] as [2, sequences, num_kv_heads, blocks], flat."""
        planes = self.planes[:, None, :, None] * self.num_blocks
        return (planes + tables[None, :, None, :]).reshape(-1)

    def token_rows(self, slots: Index) -> Index:
        """Rows that write `slots` [tokens] as [tokens, 2, num_kv_heads], flat. slot = block · block_size + offset."""
        planes = self.planes[None] * (self.num_blocks * self.block_size)
        return (planes + slots[:, None, None]).reshape(-1)


class KVCache:
    """Keys and values of `layout.num_blocks` blocks for every layer.

    Memory starts as zeros, and a block is cleared when it is begun: what isn't written yet is masked, but a NaN there
    would survive the mask.
    """

    def __init__(self, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> None:
        self.layout = layout
        shape = (2, layout.num_kv_heads, layout.num_blocks, layout.block_size, layout.head_dim)
        self.layers = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(num_layers)]

    @property
    def num_bytes(self) -> int:
        return sum(layer.numel() * layer.element_size() for layer in self.layers)

    def write(self, layer: int, rows: Tensor, cleared: Tensor, kv: Tensor) -> None:
        """Store `kv` [tokens, 2 · num_kv_heads, head_dim] at `rows` (`KVLayout.token_rows`), after zeros in the blocks
        at `cleared` (`KVLayout.block_rows`)."""
        layout, keys_values = self.layout, self.layers[layer]
        if len(cleared):
            keys_values.view(-1, layout.block_size * layout.head_dim).index_fill_(0, cleared, 0)
        keys_values.view(-1, layout.head_dim).index_copy_(0, rows, kv.view(-1, layout.head_dim))

    def gather(self, layer: int, rows: Tensor, sequences: int) -> Tensor:
        """Blocks at `rows` (`KVLayout.block_rows`) as [2, sequences · num_kv_heads, tokens, head_dim], contiguous."""
        layout = self.layout
        blocks = torch.index_select(self.layers[layer].view(-1, layout.block_size * layout.head_dim), 0, rows)
        return blocks.view(2, sequences * layout.num_kv_heads, -1, layout.head_dim)
