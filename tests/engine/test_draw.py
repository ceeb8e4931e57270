"""Native draws against the plain sum in fp64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.native_kernels import NativeKernels, why_not_native

if reason := why_not_native(torch.bfloat16, torch.device("cpu")):
    pytest.skip(reason, allow_module_level=True)

DRAW = NativeKernels().draw


def expected(row: torch.Tensor, temperature: float, points: torch.Tensor) -> torch.Tensor:
    sums = ((row.double() - row.double().max()) / temperature).exp().cumsum(0)
    return torch.searchsorted(sums, points.double() * sums[-1], right=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.floats(0.05, 2), st.floats(0.1, 8), st.integers(0, 2**32))
def test_a_draw_stands_where_its_share_of_the_sum_is_reached(
    width: int, temperature: float, spread: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    row = (torch.randn(width, generator=generator) * spread).bfloat16()
    row[torch.rand(width, generator=generator) < 0.2] = -torch.inf
    row[seed % width] = 0
    points = torch.rand(200, generator=generator)
    drawn = DRAW(row.repeat(200, 1), torch.full((200,), temperature), points)
    assert row[drawn].isfinite().all()
    weights = ((row.double() - row.double().max()) / temperature).exp()
    shares = (weights.cumsum(0) - weights / 2) / weights.sum()
    off = (shares[drawn] - shares[expected(row, temperature, points)]).abs()
    assert off.max() < 1e-4 + float(weights.max() / weights.sum()) * (off.count_nonzero() > 4)


def test_without_temperature_the_first_of_the_largest_is_taken() -> None:
    rows = torch.zeros(3, 49152, dtype=torch.bfloat16)
    rows[0, [700, 31000, 49151]] = 5
    rows[1, 49151] = 1
    assert DRAW(rows, torch.zeros(3), torch.full((3,), 0.99)).tolist() == [700, 49151, 0]
    assert DRAW(rows[:1], torch.full((1,), 1e-40), torch.full((1,), 0.5)).item() in (700, 31000, 49151)


def test_whatever_a_row_holds_a_token_of_it_is_drawn() -> None:
    for value in (torch.nan, torch.inf, -torch.inf):
        rows = torch.full((2, 100), value, dtype=torch.bfloat16)
        assert all(0 <= token < 100 for token in DRAW(rows, torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.999])))
