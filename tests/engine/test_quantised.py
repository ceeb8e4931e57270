"""Quantised weights: near the real ones, packed without loss, and the same product for few rows as for many."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.errors import StartRefused
from engine.kernels.protocol import Bits
from engine.kernels.torch_kernels import TorchKernels
from engine.kernels.torch_quantised import Int4Linear, Int8Linear, has_packed_product, pack_int4, unpack_int4
from tests.engine.oracle import answer_greedily, load

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def weight_of(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Random, with one row of zeros, one constant row and one that is far larger than the others."""
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)) * 0.1
    weight[3], weight[5], weight[7] = 0.0, 0.25, weight[7] * 100
    return weight.to(dtype)


def restored(linear: Int8Linear | Int4Linear) -> torch.Tensor:
    if isinstance(linear, Int4Linear):
        return linear.restored().t().float()
    return linear.weight.float() * linear.scale.float()[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_value_is_off_by_at_most_half_a_step(dtype: torch.dtype) -> None:
    weight = weight_of(192, 96, dtype)
    before = weight.clone()
    eight, four = Int8Linear.of(weight), Int4Linear.of(weight)
    assert torch.equal(weight, before)
    exact, slack = weight.float(), 2 * ROUNDING[dtype]
    step = exact.abs().amax(1, keepdim=True) / 127
    assert ((restored(eight) - exact).abs() <= step * (0.5 + 127 * slack)).all()
    groups = exact.view(192, 3, 32)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    off = (restored(four).view(192, 3, 32) - groups).abs()
    largest = torch.maximum(low.abs(), high.abs())
    assert (off <= (high - low) / 15 * 0.5 + largest * 2 * slack).all()
    assert torch.equal(restored(eight)[3], exact[3]) and off[3].max() <= 1e-3


@pytest.mark.parametrize("rows", [1, 5, 6, 7, 48, 49, 200])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [8, 4])
def test_few_rows_and_many_yield_the_same_product(bits: Bits, dtype: torch.dtype, rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, bias = weight_of(192, 96, dtype), torch.randn(192, generator=generator).to(dtype)
    x = torch.randn(rows, 2 * 96, generator=generator).to(dtype)[:, ::2]  # not contiguous
    linear = TorchKernels().linear(weight, bias, bits)
    assert isinstance(linear, Int8Linear | Int4Linear) and linear.out_features == 192
    expected = x.float() @ restored(linear).t() + bias.float()
    found = linear(x).float()
    assert found.shape == (rows, 192)
    assert (found - expected).norm() / expected.norm() < ROUNDING[dtype]


def test_four_bits_are_packed_without_loss_and_as_pytorch_does() -> None:
    steps = torch.randint(0, 16, (96, 192), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    packed = pack_int4(steps)
    assert packed.shape == (3, 96, 32) and packed.dtype == torch.uint8
    assert torch.equal(unpack_int4(packed, torch.float32), steps.float() - 8)
    theirs = torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps.t().contiguous().int(), 1)
    assert has_packed_product() == torch.equal(theirs.flatten(), packed.flatten())


def test_bytes_are_those_of_eight_and_four_bits() -> None:
    weight = weight_of(192, 96, torch.bfloat16)
    assert Int8Linear.of(weight).num_bytes == 192 * 96 + 192 * 2
    assert Int4Linear.of(weight).num_bytes == 192 * 96 // 2 + 192 * 3 * 2 * 2


@pytest.mark.parametrize(("rows", "columns"), [(96, 64), (64, 48)])
def test_a_shape_that_four_bits_cannot_have_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(StartRefused, match=f"one of {rows} x {columns}; use int8"):
        Int4Linear.of(torch.zeros(rows, columns))


@pytest.mark.parametrize(("quantization", "most"), [("int8", 0.05), ("int4", 0.4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_quantised_model_stays_close_to_the_real_one(
    tiny_model: Path, dtype: torch.dtype, quantization: str, most: float
) -> None:
    exact, rounded = load(tiny_model), load(tiny_model, dtype, quantization)
    assert isinstance(rounded.head, Int8Linear)
    kind = Int8Linear if quantization == "int8" else Int4Linear
    assert all(isinstance(linear, kind) for layer in rounded.layers for linear in layer.linears)
    prompts = [[index + 3, index * 2 + 5, index * 3 + 7, 11] for index in range(40)]
    first = [answer_greedily(model, prompts, 1, every_logit=False) for model in (exact, rounded)]
    distances = [float((a.logits[3] - b.logits[3]).norm() / a.logits[3].norm()) for a, b in zip(*first, strict=True)]
    assert 0 < sum(distances) / len(distances) < most
