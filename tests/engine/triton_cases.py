"""Every Triton kernel against plain PyTorch, in Triton's interpreter. `test_triton.py` runs this file in a process of
its own; `TRITON_INTERPRET=1 pytest tests/engine/triton_cases.py` does too.

In fp16 and fp32: the interpreter's product of bf16 matrices is wrong.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton.language as tl
import triton.runtime.interpreter as interpreter
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.batch import Batch
from engine.kernels.protocol import Activation, Attention
from engine.kernels.torch_kernels import TorchKernels
from engine.kernels.triton.decode import DecodeTile, decode, decode_tile
from engine.kernels.triton.draw import draw
from engine.kernels.triton.gated import gated
from engine.kernels.triton.linear import GpuLinear
from engine.kernels.triton.norm import add_norm, quantise, rms_norm, rms_norm_quantised
from engine.kernels.triton.paged import PagedCache
from engine.kernels.triton.prefill import prefill_tile
from engine.kernels.triton.skinny import MOST_ROWS, skinny
from engine.kernels.triton.splits import Splits, choose_splits
from engine.kernels.triton_kernels import TritonKernels, unavailable
from engine.kv_cache import KVLayout
from engine.model_config import ModelConfig
from engine.weights import load_model
from tests.engine.batches import Pages, make_batch
from tests.tiny_model import build_tiny_model

assert os.environ.get("TRITON_INTERPRET") == "1", "set TRITON_INTERPRET=1: there is no GPU to compile for"
torch.set_num_threads(1)


def index_numpy_2_4(tensor: Any, scope: Any, patch: Any = interpreter._patch_lang_tensor) -> None:
    """Triton 3.6 takes int() of an array with one element and one dimension, which NumPy 2.4 refuses."""
    patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def round_to_fp8(values: Any, source: Any, target: Any, mode: Any, convert: Any = interpreter._convert_float) -> Any:
    """The interpreter loses the carry where rounding to fp8 reaches the next power of two."""
    if target == tl.float8e4nv and source == tl.float32:
        return torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return convert(values, source, target, mode)


interpreter._patch_lang_tensor = index_numpy_2_4
interpreter._convert_float = round_to_fp8

FP8 = torch.float8_e4m3fn
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, FP8: 0.12}
Lengths = list[tuple[int, int]]


@dataclass
class Case:
    """One layer's attention over a batch, with all that went before in the cache."""

    lengths: Lengths
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    block_size: int = 16
    window: int = 0
    dtype: torch.dtype = torch.float32
    cache_dtype: torch.dtype | None = None
    normed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)

        def values(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        longest = max(context for context, _ in self.lengths)
        blocks = 1 + sum(-(-context // self.block_size) for context, _ in self.lengths)
        self.layout = KVLayout(blocks, self.block_size, self.num_kv_heads, self.head_dim)
        self.pages = Pages(self.layout)
        self.batch: Batch = make_batch(self.lengths, self.pages)
        heads = self.num_heads + 2 * self.num_kv_heads
        self.past = [values(2, context - new, self.num_kv_heads, self.head_dim) for context, new in self.lengths]
        self.qkv = values(sum(new for _, new in self.lengths), heads, self.head_dim).to(self.dtype)
        angles = torch.outer(torch.arange(longest).float(), 1e4 ** -torch.linspace(0, 1, self.head_dim // 2))
        self.attention = Attention(
            layer=1,
            rotary=torch.stack((angles.cos(), angles.sin()), 1),
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            scale=self.head_dim**-0.5,
            window=self.window,
            query_norm=1 + values(self.head_dim) / 4 if self.normed else None,
            key_norm=1 + values(self.head_dim) / 4 if self.normed else None,
        )

    def cache(self) -> PagedCache:
        """What went before, in its blocks; what lies in no sequence's blocks is poison."""
        kernels = TritonKernels(torch.device("cpu"))
        cache = kernels.cache(self.layout, 2, self.cache_dtype or self.dtype, torch.device("cpu"))
        layer = cache.layers[1].view(2, self.num_kv_heads, -1, self.head_dim)
        layer.copy_(torch.full(layer.shape, 300.0))
        for index, past in enumerate(self.past):
            context, new = self.lengths[index]
            table = torch.tensor(self.pages.table(index, context))
            where = torch.arange(context - new)
            slots = table[where // self.block_size] * self.block_size + where % self.block_size
            stored = past.transpose(1, 2)
            if cache.scales is not None:
                scale = stored.abs().amax(-1) / 448
                cache.scales[1].index_copy_(2, slots, scale)
                stored = stored / scale[..., None]
            if len(slots):
                layer[:, :, slots] = stored.to(layer.dtype)
        return cache

    def run(self) -> tuple[Tensor, PagedCache]:
        kernels, cache = TritonKernels(torch.device("cpu")), self.cache()
        return kernels.attend(self.attention, kernels.plan(self.batch), cache, self.qkv.flatten(1)), cache

    def expected(self) -> Tensor:
        """[tokens, num_heads · head_dim], one token and one head at a time."""
        rows, first = [], 0
        for (context, new), past in zip(self.lengths, self.past, strict=True):
            fresh = self.qkv[first : first + new].float()
            first += new
            queries, keys, values = fresh.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), 1)
            where = torch.arange(context - new, context)
            queries = self.turn(self.normalise(queries, self.attention.query_norm), where)
            keys = torch.cat((past[0], self.turn(self.normalise(keys, self.attention.key_norm), where)))
            values = torch.cat((past[1], values))
            for row in range(new):
                last = context - new + row
                begin = max(0, last - self.window + 1) if self.window else 0
                seen = slice(begin, last + 1)
                heads = []
                for head in range(self.num_heads):
                    kv_head = head // (self.num_heads // self.num_kv_heads)
                    weights = (keys[seen, kv_head] @ queries[row, head] * self.attention.scale).softmax(0)
                    heads.append(weights @ values[seen, kv_head])
                rows.append(torch.cat(heads))
        return torch.stack(rows)

    def normalise(self, heads: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return heads
        return F.rms_norm(heads, (self.head_dim,), weight, self.attention.eps)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        cosines, sines = self.attention.rotary[positions][:, :, None].unbind(1)
        low, high = heads.chunk(2, -1)
        return torch.cat((low * cosines - high * sines, high * cosines + low * sines), -1)

    def check(self) -> None:
        found, _ = self.run()
        near(found, self.expected(), self.cache_dtype or self.dtype)


def near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)


MIXED: Lengths = [(1, 1), (16, 1), (33, 1), (7, 7), (40, 9), (17, 2)]


class TestAttention:
    @pytest.mark.parametrize("group", [1, 2, 3, 4, 8])
    def test_query_heads_share_a_key_head(self, group: int) -> None:
        Case([(17, 1), (20, 5)], num_heads=2 * group, num_kv_heads=2).check()

    @pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
    def test_any_head_size(self, head_dim: int) -> None:
        Case([(18, 1), (20, 3)], head_dim=head_dim, normed=True).check()

    @pytest.mark.parametrize("block_size", [16, 32, 64])
    def test_ragged_lengths_across_blocks(self, block_size: int) -> None:
        Case([(length, min(new, length)) for length, new in MIXED], block_size=block_size).check()

    @pytest.mark.parametrize("window", [1, 5, 16, 31])
    def test_a_window_hides_what_lies_before_it(self, window: int) -> None:
        Case([(1, 1), (30, 1), (64, 1), (45, 20), (3, 3)], window=window).check()

    def test_a_long_run_is_cut_into_chunks_of_rows(self) -> None:
        Case([(70, 1), (300, 150), (90, 90)], head_dim=32, num_heads=2, num_kv_heads=1).check()

    def test_half_precision(self) -> None:
        Case(MIXED, dtype=torch.float16, normed=True).check()

    def test_an_fp8_cache_comes_near(self) -> None:
        Case([(50, 1), (40, 7)], dtype=torch.float16, cache_dtype=FP8, head_dim=64).check()

    def test_one_norm_alone(self) -> None:
        case = Case([(9, 1), (6, 4)], normed=True)
        case.attention = replace_norms(case.attention, query_norm=None)
        case.check()

    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(
        decodes=st.lists(st.integers(1, 90), max_size=3),
        prompts=st.lists(st.tuples(st.integers(0, 40), st.integers(2, 40)), max_size=2),
        group=st.sampled_from([1, 2, 3]),
        window=st.sampled_from([0, 0, 7, 33]),
        seed=st.integers(0, 99),
    )
    def test_any_batch(
        self, decodes: list[int], prompts: list[tuple[int, int]], group: int, window: int, seed: int
    ) -> None:
        lengths = [(context, 1) for context in decodes] + [(before + new, new) for before, new in prompts]
        if lengths:
            Case(lengths, num_heads=group, num_kv_heads=1, head_dim=32, window=window, seed=seed).check()


def replace_norms(attention: Attention, query_norm: Tensor | None) -> Attention:
    return replace(attention, query_norm=query_norm)


class TestStore:
    def test_keys_and_values_lie_where_the_slots_say_and_nowhere_else(self) -> None:
        case = Case([(20, 1), (33, 30)], normed=True)
        before = case.cache().layers[1].clone().view(2, 2, -1, 64)
        _, cache = case.run()
        after = cache.layers[1].view(2, 2, -1, 64)
        fresh = case.qkv[:, 4:].float()
        keys = case.turn(case.normalise(fresh[:, :2], case.attention.key_norm), case.batch.positions)
        slots = case.batch.slots
        near(after[0, :, slots].transpose(0, 1), keys, torch.float32)
        near(after[1, :, slots].transpose(0, 1), fresh[:, 2:], torch.float32)
        untouched = torch.ones(after.shape[2], dtype=torch.bool)
        untouched[slots] = False
        assert torch.equal(after[:, :, untouched], before[:, :, untouched])
        assert not cache.layers[0].any()

    def test_a_row_without_a_slot_is_not_stored_and_sees_nothing(self) -> None:
        case = Case([(20, 1), (5, 1)])
        case.batch.slots[1] = -1
        case.batch.context_lens[1] = 0
        before = case.cache().layers[1].clone()
        found, cache = case.run()
        changed = (cache.layers[1] != before).any(-1).flatten(2).any(0).any(0).nonzero().flatten()
        assert changed.tolist() == case.batch.slots[:1].tolist()
        assert not found[1].any()
        near(found[:1], case.expected()[:1], torch.float32)

    def test_fp8_keeps_the_largest_value_of_each_head(self) -> None:
        case = Case([(3, 3)], cache_dtype=FP8)
        case.qkv[:, -1] *= 1000
        _, cache = case.run()
        assert cache.scales is not None
        stored = cache.layers[1].view(2, 2, -1, 64).float() * cache.scales[1][..., None]
        values, expected = stored[1][:, case.batch.slots].transpose(0, 1), case.qkv[:, -2:].float()
        torch.testing.assert_close(values.abs().amax(-1), expected.abs().amax(-1))
        near(values[:, 0], expected[:, 0], FP8)
        near(values[:, 1] / 1000, expected[:, 1] / 1000, FP8)


class TestSplits:
    @pytest.mark.parametrize("count", [1, 2, 5, 20])
    def test_parts_are_merged_whatever_their_number(self, count: int) -> None:
        case = Case([(1, 1), (32, 1), (33, 1), (200, 1)], num_heads=2, num_kv_heads=1, head_dim=32)
        found = self.run(case, Splits(count, 16))
        near(found, case.expected(), torch.float32)

    def test_parts_of_a_window(self) -> None:
        case = Case([(1, 1), (99, 1), (130, 1)], head_dim=32, window=70)
        near(self.run(case, Splits(3, 16)), case.expected(), torch.float32)

    @staticmethod
    def run(case: Case, splits: Splits) -> Tensor:
        _, cache = case.run()
        queries, _ = case.qkv.float().split((case.num_heads, 2 * case.num_kv_heads), 1)
        queries = case.turn(queries, case.batch.positions)
        out = torch.full((len(case.lengths), case.num_heads * case.head_dim), float("nan"))
        decode(
            queries.flatten(1).contiguous(),
            cache,
            1,
            case.batch.block_tables,
            case.batch.context_lens,
            out,
            num_heads=case.num_heads,
            scale=case.attention.scale,
            window=case.window,
            splits=splits,
            tile=DecodeTile(16),
        )
        return out

    @given(st.integers(1, 1024), st.sampled_from([1, 2, 4, 8, 32]), st.integers(1, 200_000))
    def test_the_choice_fills_the_gpu_and_no_more(self, sequences: int, num_kv_heads: int, context: int) -> None:
        splits = choose_splits(sequences, num_kv_heads, context, 132)
        programs = sequences * num_kv_heads * splits.count
        assert 1 <= splits.count <= 64 and 128 <= splits.shortest <= 512
        assert splits.count == 1 or programs <= 16384
        # One part is no longer than it must be, unless the GPU has enough to do.
        assert splits.count in (64, max(1, 16384 // (sequences * num_kv_heads))) or (
            splits.count * splits.shortest >= context
        )

    def test_few_sequences_are_cut_finely(self) -> None:
        assert choose_splits(1, 8, 4096, 132) == Splits(32, 128)
        assert choose_splits(256, 8, 2048, 132) == Splits(4, 512)

    @pytest.mark.parametrize("element_bytes", [1, 2, 4])
    @pytest.mark.parametrize("head_dim", [64, 80, 128, 256])
    def test_tiles_fit_any_gpu(self, head_dim: int, element_bytes: int) -> None:
        tile = decode_tile(head_dim, element_bytes)
        assert tile.tokens & (tile.tokens - 1) == 0 and 16 <= tile.tokens <= 128
        for group in (1, 3, 8, 48):
            for queries in (2, 20, 5000):
                wide = prefill_tile(head_dim, max(2, element_bytes), group, queries, queries, 8, 132)
                assert wide.rows >= group and wide.rows in (16, 32, 64, 128)


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
