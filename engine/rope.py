"""Rotary position embedding: the frequencies, and a table of cosines and sines for every position."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.model_config import ModelConfig

__all__ = ["inverse_frequencies", "rotary_table", "rotate"]


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """Angle per position of each pair of dimensions, [head_dim / 2], fp32.

    Su et al., RoFormer (arXiv 2104.09864); with `rope_scaling`, the wavelengths that exceed the original context are
    stretched by `factor` and those in between are blended, as Llama 3.1 does.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
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


def rotary_table(config: ModelConfig, length: int, dtype: torch.dtype) -> Tensor:
    """Cosines and signed sines of every position below `length`, [length, 2, head_dim].

    The first half of the sines is negated, so that `rotate` needs no sign of its own.
    """
    angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse_frequencies(config))
    cosines, sines = angles.cos(), angles.sin()
    table = torch.stack((torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)), 1)
    return table.to(dtype)


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """`heads` [tokens, heads, head_dim] turned to their positions; `cosines` and `sines` are [tokens, 1, head_dim]."""
    half = heads.shape[-1] // 2
    return torch.addcmul(heads * cosines, heads.roll(half, -1), sines)
