"""Weights in the layouts of `linear.h`, and memory on huge pages."""

from __future__ import annotations

import mmap

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["GROUP", "HUGE_PAGES", "PANEL", "pack_bf16", "pack_int4", "pack_int8"]

PANEL = 32
"""Outputs that are computed together."""

GROUP = 32
"""Inputs that share a scale and a minimum where a weight has four bits."""

ROWS_AT_ONCE = 512
"""Rows quantised together, so that what is in between stays in the processor's cache."""


class HugePages:
    """Memory that the system may map in pages of 2 MiB where it has them: it is read a tenth faster.

    Small tensors share a mapping, since a page can't be larger than its mapping. It is given back with its last tensor.
    """

    CHUNK_BYTES = 32 << 20

    def __init__(self) -> None:
        self._chunk, self._used = self._map(0), 0

    def zeros(self, count: int, dtype: torch.dtype) -> Tensor:
        """[count], at a multiple of 64 bytes."""
        size = -(-count * dtype.itemsize // 64) * 64
        if size > self.CHUNK_BYTES // 2:
            return torch.frombuffer(self._map(size), dtype=dtype, count=count)
        if self._used + size > len(self._chunk):
            self._chunk, self._used = self._map(self.CHUNK_BYTES), 0
        start, self._used = self._used, self._used + size
        return torch.frombuffer(self._chunk, dtype=dtype, count=count, offset=start)

    @staticmethod
    def _map(size: int) -> mmap.mmap:
        memory = mmap.mmap(-1, max(size, 64), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        return memory


HUGE_PAGES = HugePages()


def in_panels(weight: Tensor) -> Tensor:
    """[out, units] → [panels, units, 32]; outputs are padded with zeros."""
    out_features, units = weight.shape
    panels = -(-out_features // PANEL)
    packed = HUGE_PAGES.zeros(panels * units * PANEL, weight.dtype).view(panels, units, PANEL)
    whole = out_features // PANEL
    packed[:whole] = weight[: whole * PANEL].view(whole, PANEL, units).transpose(1, 2)
    if whole < panels:
        packed[whole, :, : out_features % PANEL] = weight[whole * PANEL :].t()
    return packed


def pack_bf16(weight: Tensor) -> Tensor:
    pairs = weight.to(torch.bfloat16).contiguous().view(torch.int32)
    return in_panels(pairs).view(torch.uint8)


def pack_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and magnitude, so that two table look-ups make a bf16; one scale per output."""
    out_features, in_features = weight.shape
    pad = -out_features % PANEL
    pairs, scales = (
        torch.zeros(out_features + pad, in_features // 2, dtype=torch.int16),
        torch.zeros(out_features + pad),
    )
    for start in range(0, out_features, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, out_features))
        values = weight[rows].to(torch.float32, copy=True)
        scales[rows] = values.abs().amax(1) / 127
        codes = values.div_(scales[rows].clamp_min(1e-30)[:, None]).round_().to(torch.int8)
        pairs[rows] = (codes.abs() | (codes & -128)).view(torch.int16)
    # A 128-bit lane of the register holds 4 of the first 16 outputs, then 4 of the others.
    order = torch.arange(PANEL).view(2, 4, 4).transpose(0, 1).reshape(-1)
    pairs = pairs.view(-1, PANEL, in_features // 2).index_select(1, order).view(out_features + pad, -1)
    return in_panels(pairs).view(torch.uint8), scales


def pack_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Groups of 32 inputs with a scale and a minimum in bf16; codes are made for those as they were rounded."""
    out_features, in_features = weight.shape
    groups = -(-in_features // GROUP)
    pairs = torch.empty(out_features, in_features // 4 // 2, dtype=torch.int32)
    grids = torch.empty(out_features, groups, dtype=torch.int32)
    for start in range(0, out_features, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, out_features))
        values = F.pad(weight[rows].float(), (0, groups * GROUP - in_features), mode="replicate")
        values = values.view(-1, groups, GROUP)
        minima = values.amin(2).bfloat16()
        scales = ((values.amax(2) - minima.float()) / 15).clamp_min_(1e-30).bfloat16()
        codes = (values - minima.float()[..., None]).div_(scales.float()[..., None]).round_().clamp_(0, 15)
        # A word holds every second input of 8; two words, the pairs of inputs.
        nibbles = codes.flatten(1)[:, :in_features].to(torch.int16).view(len(codes), in_features // 8, 4, 2)
        words = nibbles[:, :, 0].clone()
        for i in range(1, 4):
            words |= nibbles[:, :, i] << 4 * i
        pairs[rows] = words.view(torch.int32)[..., 0]
        grids[rows] = torch.stack((minima, scales), 2).view(torch.int32)[..., 0]
    return in_panels(pairs).view(torch.uint8), in_panels(grids)
