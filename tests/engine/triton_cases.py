"""Every Triton kernel against plain PyTorch, in Triton's interpreter. `test_triton.py` runs these files in a process of
its own; `TRITON_INTERPRET=1 pytest tests/engine/triton_*cases.py` does too.

In fp16 and fp32: the interpreter's product of bf16 matrices is wrong.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.protocol import Activation
from engine.kernels.torch_kernels import TorchKernels
from engine.kernels.triton.draw import draw
from engine.kernels.triton.gated import gated
from engine.kernels.triton.linear import GpuLinear
from engine.kernels.triton.norm import add_norm, quantise, rms_norm, rms_norm_quantised
from engine.kernels.triton.skinny import MOST_ROWS, skinny
from engine.kernels.triton_kernels import TritonKernels, unavailable
from engine.kv_cache import KVLayout
from engine.model_config import ModelConfig
from engine.weights import load_model
from tests.engine.batches import Pages, make_batch
from tests.engine.triton_interpreter import FP8, near
from tests.tiny_model import build_tiny_model


@pytest.mark.parametrize("width", [64, 576, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norms(width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(3, width).to(dtype), 1 + torch.randn(width) / 4
    expected = F.rms_norm(x.float(), (width,), weight, 1e-5)
    near(rms_norm(x, weight, 1e-5), expected, dtype)
    hidden = torch.randn(3, width).to(dtype)
    added = hidden.float() + expected
    assert add_norm(hidden, x, weight, 1e-5) is hidden
    near(hidden, added, dtype)
    values, scales = rms_norm_quantised(x, weight, 1e-5)
    assert values.dtype == FP8 and scales.shape == (3, 1)
    near(values.float() * scales, expected, FP8)
    values, scales = quantise(x)
    near(values.float() * scales, x, FP8)
    torch.testing.assert_close((values.float() * scales).abs().amax(1), x.float().abs().amax(1))


def test_a_row_of_zeros_is_quantised() -> None:
    values, scales = quantise(torch.zeros(2, 32))
    assert not values.float().any() and scales.isfinite().all()


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("width", [48, 1500])
def test_gated(activation: Activation, width: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 2 * width) * 3
    near(gated(x, activation), gate(x, activation), torch.float32)


def gate(x: Tensor, activation: Activation) -> Tensor:
    low, high = x.chunk(2, -1)
    return (F.silu(low) if activation == "silu" else F.gelu(low, approximate="tanh")) * high


class TestLinear:
    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("shape", [(13, 64), (9, 4200)])
    def test_a_handful_of_rows(self, rows: int, shape: tuple[int, int]) -> None:
        torch.manual_seed(rows)
        weight, bias, norm = torch.randn(shape) / 8, torch.randn(shape[0]), 1 + torch.randn(shape[1]) / 4
        x = torch.randn(rows, shape[1])
        near(skinny(x, weight, bias=bias), F.linear(x, weight, bias), torch.float32)
        normed = F.rms_norm(x, (shape[1],), norm, 1e-5)
        near(skinny(x, weight, norm=norm, eps=1e-5), F.linear(normed, weight), torch.float32)
        residual = torch.randn(rows, shape[0])
        expected = residual + F.linear(x, weight)
        assert skinny(x, weight, residual=residual) is residual
        near(residual, expected, torch.float32)

    @pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
    def test_gate_and_up_in_one_pass(self, activation: Activation) -> None:
        torch.manual_seed(0)
        weight, bias, norm = torch.randn(2 * 37, 160) / 8, torch.randn(74), 1 + torch.randn(160) / 4
        x = torch.randn(2, 160)
        expected = gate(F.linear(F.rms_norm(x, (160,), norm, 1e-5), weight, bias), activation)
        found = skinny(x, weight, bias=bias, norm=norm, eps=1e-5, activation=activation)
        near(found, expected, torch.float32)

    @pytest.mark.parametrize("stored", [FP8, torch.int8])
    def test_eight_bits_with_a_scale_per_row(self, stored: torch.dtype) -> None:
        torch.manual_seed(0)
        weight = torch.randn(40, 128) * torch.logspace(-3, 2, 40)[:, None]
        linear = GpuLinear.of(weight, torch.randn(40), stored)
        assert linear.scales is not None
        restored = linear.weight.float() * linear.scales[:, None]
        worst = ((restored - weight).abs().amax(1) / weight.abs().amax(1)).max()
        assert worst < (0.04 if stored == FP8 else 0.004)
        assert linear.num_bytes == 40 * 128 + 4 * 40 + 4 * 40 and linear.out_features == 40
        x = torch.randn(MOST_ROWS, 128)
        expected = F.linear(x, restored, linear.bias)
        torch.testing.assert_close(linear(x), expected, rtol=1e-4, atol=1e-4)
        if stored == torch.int8:
            many = torch.randn(MOST_ROWS + 1, 128)
            torch.testing.assert_close(linear(many), F.linear(many, restored, linear.bias), rtol=1e-4, atol=1e-4)


class TestDraw:
    def test_greedy_takes_the_first_of_the_most_likely(self) -> None:
        logits = torch.randn(3, 20000).half()
        logits[1, [9000, 12000, 17000]] = 50  # of two tiles
        found = draw(logits, torch.zeros(3), torch.full((3,), 0.9))
        assert found.tolist() == logits.float().argmax(-1).tolist() and found[1] == 9000

    @pytest.mark.parametrize("temperature", [0.01, 0.7, 2.0])
    def test_a_point_falls_into_the_token_whose_share_holds_it(self, temperature: float) -> None:
        torch.manual_seed(0)
        logits, points = torch.randn(6, 9000), torch.tensor([0.0, 0.01, 0.3, 0.5, 0.9, 0.9999999])
        logits[:, ::3] = -torch.inf
        sums = (logits.double() / temperature).softmax(-1).cumsum(-1)
        found = draw(logits, torch.full((6,), temperature), points)
        assert logits.gather(1, found[:, None]).isfinite().all()
        above = sums.gather(1, found[:, None])[:, 0]
        below = sums.gather(1, (found - 1).clamp(min=0)[:, None])[:, 0] * (found > 0)
        assert (below <= points + 1e-5).all() and (above >= points - 1e-5).all()

    def test_a_point_beyond_the_sum_takes_the_last_that_can_be_drawn(self) -> None:
        logits = torch.randn(2, 9000)
        logits[:, 8500:] = -torch.inf
        assert draw(logits, torch.ones(2), torch.full((2,), 1.001)).tolist() == [8499, 8499]

    def test_draws_are_distributed_as_the_softmax_is(self) -> None:
        logits = torch.tensor([[1.0, 0.0, -torch.inf, 2.0]]).repeat(100, 1)
        found = draw(logits, torch.ones(100), (torch.arange(100) + 0.5) / 100)
        shares = torch.bincount(found, minlength=4) / 100
        torch.testing.assert_close(shares, logits[0].softmax(-1), atol=0.01, rtol=0)


class TestKernels:
    """The protocol's operations, on both sides of the number of rows where another kernel takes over."""

    @pytest.mark.parametrize("rows", [2, MOST_ROWS + 1])
    @pytest.mark.parametrize("biased", [False, True])
    @pytest.mark.parametrize("bits", [16, 8])
    def test_projections(self, rows: int, biased: bool, bits: int) -> None:
        torch.manual_seed(0)
        kernels = TritonKernels(torch.device("cpu"))
        hidden, norm, after = torch.randn(rows, 64), 1 + torch.randn(64) / 4, 1 + torch.randn(24) / 4
        weight, bias = torch.randn(24, 64) / 8, torch.randn(24) if biased else None
        linear = kernels.linear(weight, bias, bits)  # type: ignore[arg-type]
        if isinstance(linear, GpuLinear) and linear.scales is not None:
            weight = linear.weight.float() * linear.scales[:, None]
        normed = F.rms_norm(hidden, (64,), norm, 1e-5)
        projected = F.linear(normed, weight, bias)
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(kernels.norm(hidden, norm, 1e-5), normed, **close)
        torch.testing.assert_close(kernels.project(hidden, norm, 1e-5, linear), projected, **close)
        torch.testing.assert_close(
            kernels.project_gated(hidden, norm, 1e-5, linear, "silu"), gate(projected, "silu"), **close
        )
        residual, added = torch.randn(rows, 24), F.linear(hidden, weight, bias)
        torch.testing.assert_close(kernels.add_projection(residual.clone(), hidden, linear), residual + added, **close)
        torch.testing.assert_close(
            kernels.add_projection(residual.clone(), hidden, linear, after, 1e-5),
            residual + F.rms_norm(added, (24,), after, 1e-5),
            **close,
        )

    def test_it_says_why_it_can_not_run_here(self) -> None:
        assert "the device is cpu" in unavailable(torch.device("cpu"))

    def test_the_cache_counts_its_scales(self) -> None:
        layout = KVLayout(num_blocks=4, block_size=16, num_kv_heads=2, head_dim=32)
        values = 2 * 2 * 4 * 16 * 32
        device = torch.device("cpu")
        assert TritonKernels(torch.device("cpu")).cache(layout, 3, torch.float16, device).num_bytes == 3 * 2 * values
        assert TritonKernels(torch.device("cpu")).cache(layout, 3, FP8, device).num_bytes == 3 * (
            values + 4 * values // 32
        )


@pytest.mark.parametrize("model_type", ["qwen3", "gemma3_text"])
def test_whole_models_agree_with_plain_pytorch(model_type: str, tmp_path: Path) -> None:
    directory = build_tiny_model(tmp_path / model_type, model_type=model_type)
    config, device = ModelConfig.load(directory), torch.device("cpu")
    layout = KVLayout(40, 16, config.num_kv_heads, config.head_dim)
    chance = random.Random(0)
    tokens = [[chance.randrange(512) for _ in range(90)] for _ in range(MOST_ROWS + 2)]
    found: list[list[Tensor]] = []
    for kernels in (TorchKernels(), TritonKernels(device)):
        model = load_model(directory, config, kernels=kernels, dtype=torch.float32, device=device, max_model_len=128)
        cache, pages = kernels.cache(layout, config.num_layers, torch.float32, device), Pages(layout)
        # Prompts; then new tokens of five beside the second part of the sixth prompt.
        found.append([])
        for lengths in ([(50, 50), (9, 9), (16, 16), (5, 5), (2, 2), (20, 20)],
                        [(51, 1), (10, 1), (17, 1), (6, 1), (3, 1), (60, 40)]):  # fmt: skip
            batch = make_batch(lengths, pages, tokens=tokens)
            found[-1].append(model.forward(batch, kernels.plan(batch), cache))
    for expected, logits in zip(*found, strict=True):
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_log2_of_e() -> None:
    from engine.kernels.triton.paged import LOG2_E

    assert math.isclose(LOG2_E, math.log2(math.e))
