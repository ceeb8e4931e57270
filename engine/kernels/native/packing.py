"""Weights in the layouts of `linear.h`, and memory on huge pages."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

__all__ = ["GROUP", "HUGE_PAGES", "PANEL", "pack_bf16", "pack_int4", "pack_int8"]

PANEL = 32
"""Outputs that are computed together."""

GROUP = 32
"""Inputs that share a scale and a minimum where a weight has four bits."""


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
    values = weight.float()
    scales = values.abs().amax(1) / 127
    codes = (values / scales.clamp_min(1e-30)[:, None]).round_()
    magnitudes = codes.abs().to(torch.uint8) | (codes < 0).to(torch.uint8) << 7
    panels = in_panels(magnitudes.view(torch.int16)).view(torch.uint8)  # [panels, in / 2, 32 · 2]
    # A 128-bit lane of the register holds 8 words for the first 16 outputs, then 8 for the others.
    word = torch.arange(64).view(2, 4, 8).transpose(0, 1).reshape(-1)
    panels.copy_(panels.index_select(2, word))
    return panels, torch.nn.functional.pad(scales, (0, -len(scales) % PANEL)).contiguous()


def pack_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Groups of 32 inputs with a scale and a minimum in bf16; codes are made for those as they were rounded."""
    out_features, in_features = weight.shape
    groups = -(-in_features // GROUP)
    values = torch.nn.functional.pad(weight.float(), (0, groups * GROUP - in_features), mode="replicate")
    values = values.view(out_features, groups, GROUP)
    minima = values.amin(2).bfloat16()
    scales = ((values.amax(2) - minima.float()) / 15).clamp_min_(1e-30).bfloat16()
    codes = (values - minima.float()[..., None]).div_(scales.float()[..., None]).round_().clamp_(0, 15)
    codes = codes.view(out_features, -1)[:, :in_features].to(torch.int16)
    # A word holds every second input of 8: the pair of words holds pairs of inputs, four of them.
    nibbles = codes.view(out_features, in_features // 8, 4, 2)
    words = sum(nibbles[:, :, i] << 4 * i for i in range(4))
    assert isinstance(words, Tensor)
    packed = in_panels(words.contiguous().view(torch.int32).view(out_features, -1)).view(torch.uint8)
    both = torch.stack((minima, scales), 2).view(torch.int32).view(out_features, groups)
    return packed, in_panels(both)
