"""Rotary position embedding: the frequencies, and a table of cosines and sines for every position."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.model_rope import Llama3Scaling, Rope, YarnScaling

__all__ = ["inverse_frequencies", "rotary_table"]


def inverse_frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Angle per position of each pair of dimensions, [head_dim / 2], fp32.

    Su et al., RoFormer (arXiv 2104.09864).
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequencies = 1.0 / rope.theta**exponents
    if isinstance(rope.scaling, Llama3Scaling):
        return llama3(frequencies, rope.scaling)
    if isinstance(rope.scaling, YarnScaling):
        return yarn(frequencies, rope.scaling, rope.theta)
    return frequencies if rope.scaling is None else frequencies / rope.scaling.factor


def llama3(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Wavelengths that exceed the original context are stretched by `factor`, those in between are blended."""
    longest = scaling.original_max_position_embeddings / scaling.low_freq_factor
    shortest = scaling.original_max_position_embeddings / scaling.high_freq_factor
    wavelengths = 2 * math.pi / frequencies
    stretched = torch.where(wavelengths > longest, frequencies / scaling.factor, frequencies)
    blend = (scaling.original_max_position_embeddings / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - blend) * stretched / scaling.factor + blend * stretched
    between = (wavelengths <= longest) & (wavelengths >= shortest)
    return torch.where(between, blended, stretched)


def yarn(frequencies: Tensor, scaling: YarnScaling, theta: float) -> Tensor:
    """Pairs that turn more than `beta_fast` times within the original context stay, those that turn less than
    `beta_slow` times are stretched, with a ramp over the pairs in between (Peng et al., arXiv 2309.00071)."""
    pairs = len(frequencies)

    def pair_that_turns(times: float) -> float:
        return pairs * math.log(scaling.original_max_position_embeddings / (times * 2 * math.pi)) / math.log(theta)

    low, high = pair_that_turns(scaling.beta_fast), pair_that_turns(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    ramp = (torch.arange(pairs, dtype=torch.float32) - low) / (high - low or 0.001)
    stretched = ramp.clamp(0, 1)
    return frequencies / scaling.factor * stretched + frequencies * (1 - stretched)


def rotary_table(rope: Rope, head_dim: int, length: int) -> Tensor:
    """Cosines and sines of every position below `length`, [length, 2, head_dim / 2], fp32."""
    angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse_frequencies(rope, head_dim))
    table = torch.stack((angles.cos(), angles.sin()), 1)
    return table.mul_(rope.scaling.attention_factor) if isinstance(rope.scaling, YarnScaling) else table
