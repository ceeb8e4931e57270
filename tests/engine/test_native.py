"""The native kernels are what they claim: right, the same whatever else is computed, and absent without harm."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import StartRefused
from engine.kernels.native.build import FLAGS, INSTRUCTIONS, missing_instructions
from engine.kernels.native_kernels import NativeCache, NativeKernels, NativeLinear, why_not_native
from engine.kernels.protocol import Activation, Attention, Bits
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch
from tests.engine.oracle import Answer, answer_greedily, load
from tests.engine.test_model import random_prompts
from tests.tiny_model import build_tiny_model

BF16, CPU = torch.bfloat16, torch.device("cpu")
REASON = why_not_native(BF16, CPU)
needs_native = pytest.mark.skipif(REASON is not None, reason=f"native kernels: {REASON}")
KERNELS = NativeKernels()


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(BF16)


def assert_near(got: Tensor, expected: Tensor, share: float = 0.01) -> None:
    """Within `share` of the largest value: bf16 keeps 8 bits, a wrong row or column is off by about all of it."""
    assert got.shape == expected.shape and not got.isnan().any()
    assert (got.float() - expected).abs().max() <= share * expected.abs().max()


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return F.rms_norm(x.float(), weight.shape, weight.float(), eps)


def values_of(linear: NativeLinear) -> Tensor:
    """The weight [out, in] as it was stored: what the product makes of unit vectors."""
    return linear(torch.eye(linear.in_features, dtype=BF16)).float().T


# Products


@needs_native
@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize(("inputs", "outputs"), [(72, 97), (576, 64), (1544, 33), (8, 20)])
def test_a_product_is_right_for_every_number_of_rows(bits: Bits, inputs: int, outputs: int) -> None:
    weight, bias = randn(outputs, inputs), randn(outputs, seed=1).float()
    linear, plain = KERNELS.linear(weight, bias, bits), KERNELS.linear(weight, None, bits)
    stored = values_of(plain)
    for rows in [*range(1, 71), 256]:
        x = randn(rows, inputs, seed=rows)
        assert_near(linear(x), x.float() @ stored.T + bias)
    assert linear(randn(0, inputs)).shape == (0, outputs)


@needs_native
def test_a_quantised_weight_is_within_half_a_step_of_the_weight() -> None:
    weight = randn(70, 200) * torch.logspace(-3, 1, 70)[:, None]
    weight[3] = 0
    weight[4, :40] = 1.5
    half_step = weight.abs().amax(1, keepdim=True) / 127 / 2
    error = (values_of(KERNELS.linear(weight, None, 8)) - weight).abs()
    assert (error <= half_step + weight.abs() * 2**-8).all()
    groups = F.pad(weight, (0, 24), mode="replicate").view(70, 7, 32)
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
    # Scale and minimum are themselves rounded to 8 bits, the results to 8 bits again.
    rounding = torch.maximum(low.abs(), high.abs()) * 2**-7
    allowed = ((high - low) / 30 + rounding + (high - low) * 2**-8).expand_as(groups).reshape(70, -1)[:, :200]
    assert ((values_of(KERNELS.linear(weight, None, 4)) - weight).abs() <= allowed).all()


@needs_native
def test_bf16_weights_are_kept_exactly_and_sizes_are_told() -> None:
    weight = randn(65, 34)
    linear = KERNELS.linear(weight)
    assert torch.equal(values_of(linear), weight.float())
    assert linear.num_bytes == 96 * 34 * 2 and linear.out_features == 65
    eight, four = KERNELS.linear(randn(64, 64), None, 8), KERNELS.linear(randn(64, 64), None, 4)
    assert eight.num_bytes == 64 * 64 + 64 * 4 and four.num_bytes == 64 * 64 // 2 + 64 * 2 * 4


@needs_native
@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_what_surrounds_a_product_is_right(bits: Bits, rows: int) -> None:
    hidden, x = randn(rows, 64), randn(rows, 96, seed=1)
    norm, post_norm = 1 + randn(64, seed=2).float() / 8, 1 + randn(64, seed=3) / 8
    for weight_norm in (norm, norm.to(BF16)):
        assert_near(KERNELS.norm(hidden, weight_norm, 1e-5), rms_norm(hidden, weight_norm))
        for outputs in (64, 192, 100, 30):  # whole panels gate in one pass, the others in two
            linear = KERNELS.linear(randn(outputs, 64, seed=4), None, bits)
            expected = rms_norm(hidden, weight_norm) @ values_of(linear).T
            assert_near(KERNELS.project(hidden, weight_norm, 1e-5, linear), expected)
            gate, up = expected.chunk(2, 1)
            activations: list[tuple[Activation, Tensor]] = [
                ("silu", F.silu(gate)),
                ("gelu_tanh", F.gelu(gate, approximate="tanh")),
            ]
            for name, activated in activations:
                assert_near(KERNELS.project_gated(hidden, weight_norm, 1e-5, linear, name), activated * up, 0.02)
    added = KERNELS.linear(randn(64, 96, seed=5), randn(64, seed=6), bits)
    product = x.float() @ values_of(added).T  # the bias is in both
    product -= (x.float().sum(1, keepdim=True) - 1) * randn(64, seed=6).float()
    assert_near(KERNELS.add_projection(hidden.clone(), x, added), hidden.float() + product)
    expected = hidden.float() + rms_norm(product, post_norm)
    assert_near(KERNELS.add_projection(hidden.clone(), x, added, post_norm, 1e-5), expected)


@needs_native
def test_activations_are_right_over_their_whole_range() -> None:
    gate = torch.linspace(-120, 120, 2048).to(BF16)
    for code, expected in ((1, F.silu(gate.float())), (2, F.gelu(gate.float(), approximate="tanh"))):
        to = torch.empty(1, 2048, dtype=BF16)
        torch.ops.engine_native.gate(torch.cat((gate, torch.ones_like(gate)))[None], code, to)
        torch.testing.assert_close(to[0].float(), expected, rtol=0.01, atol=1e-5)


# Attention


def rotary(length: int, dim: int) -> Tensor:
    angles = torch.outer(torch.arange(length).float(), 10000.0 ** -(torch.arange(0, dim, 2) / dim))
    return torch.stack((angles.cos(), angles.sin()), 1)


Part = tuple[int, int, int]
"""A sequence, the first of its tokens that is computed, and where that ends."""


class Case:
    """Sequences whose queries, keys and values are known, and attention over them: ours and a plain one in fp32."""

    def __init__(
        self, attention: Attention, contexts: list[int], block_size: int = 16, left_behind: float = 0.0
    ) -> None:
        self.attention, self.contexts = attention, contexts
        blocks = sum(-(-context // block_size) for context in contexts) + 2
        layout = KVLayout(blocks, block_size, attention.num_kv_heads, attention.head_dim)
        self.pages, self.cache = Pages(layout), KERNELS.cache(layout, 1, BF16, CPU)
        for part in self.cache.layers:
            part.fill_(left_behind)
        width = (attention.num_heads + 2 * attention.num_kv_heads) * attention.head_dim
        self.qkv = [randn(context, width, seed=index) for index, context in enumerate(contexts)]

    def attend(self, *parts: Part) -> dict[Part, Tensor]:
        """Compute `parts` together."""
        ordered = sorted(parts, key=lambda part: part[2] - part[1] != 1)
        lengths = [(end, end - start) for _, start, end in ordered]
        batch = make_batch(lengths, self.pages, sequences=[sequence for sequence, _, _ in ordered])
        qkv = torch.cat([self.qkv[sequence][start:end] for sequence, start, end in ordered])
        out = KERNELS.attend(self.attention, KERNELS.plan(batch), self.cache, qkv)
        return dict(zip(ordered, out.split([length for _, length in lengths]), strict=True))

    def expected(self, sequence: int) -> Tensor:
        a, context = self.attention, self.contexts[sequence]
        heads = self.qkv[sequence].float().view(context, -1, a.head_dim)
        queries, keys, values = heads.split((a.num_heads, a.num_kv_heads, a.num_kv_heads), 1)
        if a.query_norm is not None and a.key_norm is not None:
            queries, keys = rms_norm(queries, a.query_norm, a.eps), rms_norm(keys, a.key_norm, a.eps)
        cosines, sines = a.rotary[:context, None].unbind(2)

        def turn(x: Tensor) -> Tensor:
            x1, x2 = x.chunk(2, -1)
            return torch.cat((x1 * cosines - x2 * sines, x2 * cosines + x1 * sines), -1)

        share = a.num_heads // a.num_kv_heads
        keys, values = turn(keys).repeat_interleave(share, 1), values.repeat_interleave(share, 1)
        ages = torch.arange(context)[:, None] - torch.arange(context)
        hidden = (ages < 0) | (ages >= (a.window or context))
        scores = torch.einsum("qhd,khd->hqk", turn(queries), keys) * a.scale
        return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), values).flatten(1)


def attention_of(heads: int, kv_heads: int, dim: int, window: int = 0, *, norms: bool = False) -> Attention:
    weights = [1 + randn(dim, seed=seed).float() / 8 for seed in (1, 2)] if norms else [None, None]
    return Attention(0, rotary(1024, dim), heads, kv_heads, dim, dim**-0.5, window, *weights)


HEADS = [(4, 4), (9, 3), (8, 1), (14, 2)]


@needs_native
@pytest.mark.parametrize("dim", [16, 32, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("window", [0, 37])
def test_every_token_sees_what_it_may(dim: int, window: int) -> None:
    """Ragged lengths around the borders of registers, tiles and blocks: prompts in two chunks, then one token each."""
    contexts = [2, 3, 16, 17, 18, 64, 65, 66, 130, 200, 261]
    for index, (heads, kv_heads) in enumerate(HEADS):
        attention = attention_of(heads, kv_heads, dim, window, norms=index % 2 == 1)
        case = Case(attention, contexts, block_size=(16, 32, 64)[index % 3], left_behind=float("nan"))
        expected = [case.expected(sequence) for sequence in range(len(contexts))]
        firsts: list[Part] = [(s, 0, (context + 1) // 3) for s, context in enumerate(contexts)]
        seconds: list[Part] = [(s, end, contexts[s] - 1) for s, _, end in firsts if end < contexts[s] - 1]
        lasts: list[Part] = [(s, context - 1, context) for s, context in enumerate(contexts)]
        for parts in (firsts, seconds, lasts):
            for (sequence, start, end), got in case.attend(*parts).items():
                assert_near(got, expected[sequence][start:end], 0.015)


@needs_native
@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize("window", [0, 100])
def test_a_row_is_the_same_bit_for_bit_whatever_else_is_computed(heads: int, kv_heads: int, window: int) -> None:
    """In a prompt as a whole, in chunks or by itself; alone or with others; on one thread or on several."""
    contexts = [500, 90, 333]
    case = Case(attention_of(heads, kv_heads, 64, window), contexts)
    whole = case.attend(*((s, 0, context) for s, context in enumerate(contexts)))
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            apart = [case.attend((0, 499, 500)), case.attend((0, 490, 500)), case.attend((2, 200, 333))]
            together = [case.attend((0, 499, 500), (1, 89, 90), (2, 332, 333)), case.attend((1, 3, 90), (2, 332, 333))]
        finally:
            torch.set_num_threads(1)
        for parts in (*apart, *together):
            for (sequence, start, end), got in parts.items():
                assert torch.equal(got, whole[sequence, 0, contexts[sequence]][start:end])


# Whole models


def answers(
    directory: Path, prompts: list[list[int]], *, block_size: int = 16, left_behind: float = 0.0
) -> list[Answer]:
    model = load(directory, BF16, kernels=KERNELS)
    return answer_greedily(model, prompts, 12, every_logit=True, block_size=block_size, left_behind=left_behind)


@needs_native
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "gemma3_text"])
def test_a_model_says_the_same_alone_and_in_company(tmp_path: Path, model_type: str) -> None:
    """Every logit, bit for bit, however the batches were made up, whatever was left in the cache."""
    directory = build_tiny_model(tmp_path / "model", model_type=model_type, dtype="bfloat16")
    prompts = random_prompts(6, 150)
    together = answers(directory, prompts, left_behind=float("nan"))
    for prompt, answer in zip(prompts, together, strict=True):
        (alone,) = answers(directory, [prompt], block_size=32)
        assert alone.tokens == answer.tokens
        assert all(torch.equal(logits, answer.logits[position]) for position, logits in alone.logits.items())


@needs_native
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "gemma3_text"])
def test_a_model_is_as_near_to_fp32_as_plain_bf16_is(tmp_path: Path, model_type: str) -> None:
    directory = build_tiny_model(tmp_path / "model", model_type=model_type, dtype="bfloat16")
    prompts = random_prompts(4, 100)

    def logits(found: list[Answer]) -> Tensor:
        return torch.cat([answer.logits[position][None] for answer in found for position in range(answer.num_prompt)])

    exact = logits(answer_greedily(load(directory), prompts, 2, every_logit=True))
    plain = logits(answer_greedily(load(directory, BF16), prompts, 2, every_logit=True))
    native = logits(answers(directory, prompts))
    assert (native - exact).norm() <= 1.1 * (plain - exact).norm() <= 0.1 * exact.norm()


# What is refused, and what is absent


@needs_native
def test_what_the_kernels_cannot_do_is_refused_at_the_start() -> None:
    for layout in (KVLayout(4, 16, 1, 24), KVLayout(4, 16, 1, 272), KVLayout(4, 8, 1, 16)):
        with pytest.raises(StartRefused, match="use --kernels torch"):
            KERNELS.cache(layout, 1, BF16, CPU)
    with pytest.raises(StartRefused, match="are for bf16"):
        KERNELS.cache(KVLayout(4, 16, 1, 16), 1, torch.float32, CPU)
    for inputs, bits in ((7, 16), (7, 8), (12, 4)):
        with pytest.raises(StartRefused, match=f"64 x {inputs}"):
            KERNELS.linear(randn(64, inputs), None, bits)


@needs_native
def test_an_index_out_of_range_is_an_error_and_no_crash() -> None:
    attention, cache = attention_of(2, 1, 16), NativeCache(KVLayout(4, 16, 1, 16), 1)
    good = make_batch([(20, 1), (9, 3)], Pages(cache.layout))
    qkv = randn(4, 64)
    assert KERNELS.attend(attention, good, cache, qkv).shape == (4, 32)
    for broken in (
        replace(good, block_tables=good.block_tables + 3),
        replace(good, slots=good.slots + 64),
        replace(good, positions=good.positions + 1024),
        replace(good, context_lens=good.context_lens + 64),
        replace(good, context_lens=good.context_lens.long()),
        replace(good, query_start=torch.tensor([0, 2, 5], dtype=torch.int32)),
        replace(good, positions=good.positions[:3]),
    ):
        with pytest.raises(RuntimeError):
            KERNELS.attend(attention, broken, cache, qkv)
    linear = KERNELS.linear(randn(64, 32))
    for x in (randn(2, 31), randn(2, 32).float(), randn(32, 2).T):
        with pytest.raises(RuntimeError):
            linear(x)


def in_a_new_process(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Says why there are no native kernels, or multiplies with them; what it compiles goes to `folder`."""
    code = """
import torch
from engine.kernels.native_kernels import NativeKernels, why_not_native
reason = why_not_native(torch.bfloat16, torch.device("cpu"))
print(reason or NativeKernels().linear(torch.eye(4, dtype=torch.bfloat16))(torch.ones(1, 4, dtype=torch.bfloat16)))
print(len({line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}), "OpenMP runtimes")
"""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "XDG_CACHE_HOME": str(folder), "OMP_NUM_THREADS": "1", **environment},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_native
def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    running = [in_a_new_process(tmp_path) for _ in range(2)]
    outputs = [process.communicate() for process in running]
    assert [out for out, _ in outputs] == ["tensor([[1., 1., 1., 1.]], dtype=torch.bfloat16)\n1 OpenMP runtimes\n"] * 2
    assert sorted(err.count("compiling native kernels") for _, err in outputs) == [0, 1]
    assert len(list(tmp_path.rglob("*.so"))) == 1 and not list(tmp_path.rglob("*.o"))
    assert in_a_new_process(tmp_path).communicate() == (outputs[0][0], "")


@pytest.mark.skipif(bool(missing_instructions()), reason="the CPU is the first reason")
@pytest.mark.parametrize(
    ("compiler", "folder", "reason"),
    [
        ("/nowhere/c++", "cache", "no C++ compiler '/nowhere/c++'"),
        ("false", "cache", "don't compile: false -std=c++20"),
        ("c++", "/proc/nowhere", "can't be kept in /proc/nowhere"),
    ],
)
def test_without_a_compiler_or_a_place_there_are_no_kernels(
    tmp_path: Path, compiler: str, folder: str, reason: str
) -> None:
    process = in_a_new_process(tmp_path / folder, CXX=compiler)
    out, err = process.communicate()
    assert process.returncode == 0 and reason in out, err


def test_a_cpu_without_the_instructions_is_told(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor : 0\nflags : fpu {' '.join(INSTRUCTIONS[1:])}\n")
    assert missing_instructions(info) == (INSTRUCTIONS[0],)
    assert missing_instructions(tmp_path / "nothing") == INSTRUCTIONS
    assert "native kernels are for bf16" in str(why_not_native(torch.float32, CPU))
    assert "-mavx512bf16" in FLAGS
