# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
"""The next token of each row of logits, greedy or drawn by temperature alone, in one launch.

In PyTorch's own operations a draw reads and writes the logits a dozen times, half of them in fp64; here they are read
twice.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["draw"]

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize_on_alignment=["logits", "temperatures", "points"])
def draw_row(logits, temperatures, points, out, WIDTH: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, TILE)
    temperature = tl.load(temperatures + row)
    sharpness = LOG2_E / tl.maximum(temperature, 1.0e-37)
    start_of_row = logits + row * WIDTH
    best, token, total = -1.0e30, 0, 0.0
    for start in range(0, WIDTH, TILE):
        values = tl.load(start_of_row + start + columns, mask=start + columns < WIDTH, other=-float("inf"))
        values = values.to(tl.float32)
        top, place = tl.max(values, 0, return_indices=True)
        # The lowest index among equals.
        token = tl.where(top > best, start + place, token)
        higher = tl.maximum(best, top)
        total = total * tl.exp2((best - higher) * sharpness) + tl.sum(tl.exp2((values - higher) * sharpness), 0)
        best = higher
    if temperature > 0:
        target = tl.load(points + row) * total
        before, below, last = 0.0, 0, 0
        for start in range(0, WIDTH, TILE):
            values = tl.load(start_of_row + start + columns, mask=start + columns < WIDTH, other=-float("inf"))
            weights = tl.exp2((values.to(tl.float32) - best) * sharpness)
            below += tl.sum((before + tl.cumsum(weights, 0) <= target).to(tl.int32), 0)
            last = tl.maximum(last, tl.max(tl.where(weights > 0, start + columns, 0), 0))
            before += tl.sum(weights, 0)
        # Rounding may leave the target beyond the sum: then it is the last token that can be drawn.
        token = tl.minimum(below, last)
    tl.store(out + row, token)


def draw(logits: Tensor, temperatures: Tensor, points: Tensor) -> Tensor:
    """Token ids [n] int64: where the share `points` of the sum of exp(logits / temperature) is reached.

    Args:
        logits: [n, vocab_size], contiguous; -inf where a token can't be drawn.
        temperatures: [n] fp32; 0 takes the most likely token.
        points: [n] fp32 in [0, 1).
    """
    out = torch.empty(logits.shape[0], dtype=torch.int64, device=logits.device)
    if len(out):
        draw_row[(len(out),)](logits, temperatures, points, out, WIDTH=logits.shape[1], TILE=8192, num_warps=8)
    return out
