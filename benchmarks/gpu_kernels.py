"""Part of gpu_check: each operation of the kernels against plain PyTorch in fp32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu_rows import Check
from engine.batch import Batch
from engine.kernels import Attention, Kernels
from engine.kernels.torch_kernels import TorchKernels
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch

__all__ = ["FP8", "Layer", "correctness"]

FP8 = torch.float8_e4m3fn
LIMITS = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2, FP8: 6e-2}
"""‖found - expected‖ / ‖expected‖, the expected being computed in fp32 from the same (rounded) inputs."""


def error_of(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm().clamp_min(1e-30))


@dataclass
class Layer:
    """Attention of one layer over a batch, with random keys and values in every block."""

    lengths: list[tuple[int, int]]
    dtype: torch.dtype
    device: torch.device
    num_heads: int = 16
    num_kv_heads: int = 8
    head_dim: int = 128
    block_size: int = 16
    window: int = 0
    cache_dtype: torch.dtype | None = None
    num_layers: int = 1

    def __post_init__(self) -> None:
        generator = torch.Generator(self.device).manual_seed(1)
        self.generator = generator
        blocks = 1 + sum(-(-context // self.block_size) for context, _ in self.lengths)
        self.layout = KVLayout(blocks, self.block_size, self.num_kv_heads, self.head_dim)
        self.batch: Batch = make_batch(self.lengths, Pages(self.layout), device=str(self.device))
        longest = max(context for context, _ in self.lengths)
        pairs = torch.arange(self.head_dim // 2, device=self.device)
        angles = torch.outer(torch.arange(longest, device=self.device).float(), 1e4 ** (-2.0 * pairs / self.head_dim))
        self.norms = [1 + self.random(self.head_dim).to(self.dtype) / 4 for _ in range(2)]
        self.attention = Attention(
            0,
            torch.stack((angles.cos(), angles.sin()), 1),
            self.num_heads,
            self.num_kv_heads,
            self.head_dim,
            self.head_dim**-0.5,
            self.window,
            *self.norms,
        )
        rows = sum(new for _, new in self.lengths)
        width = (self.num_heads + 2 * self.num_kv_heads) * self.head_dim
        self.qkv = self.random(rows, width).to(self.dtype)

    @property
    def read_bytes(self) -> int:
        """Keys and values that a step reads in all layers."""
        size = (self.cache_dtype or self.dtype).itemsize * 2 * self.num_kv_heads * self.head_dim
        return size * self.num_layers * sum(context for context, _ in self.lengths)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def cache(self, kernels: Kernels) -> Any:
        cache = kernels.cache(self.layout, self.num_layers, self.cache_dtype or self.dtype, self.device)
        for index, layer in enumerate(cache.layers):
            values = self.random(*layer.shape)
            if getattr(cache, "scales", None) is None:
                layer.copy_(values)
            else:
                scales = values.abs().amax(-1, keepdim=True) / 448
                layer.copy_((values / scales).to(FP8))
                cache.scales[index].copy_(scales.view(cache.scales[index].shape))
        return cache

    def error(self, kernels: Kernels) -> float:
        """Of the output, and of what was stored."""
        cache = self.cache(kernels)
        oracle = TorchKernels()
        exact_cache = oracle.cache(self.layout, 1, torch.float32, self.device)
        values = cache.layers[0].float()
        if getattr(cache, "scales", None) is not None:
            values = values * cache.scales[0].view(*values.shape[:-1], 1)
        exact_cache.layers[0].copy_(values.view(exact_cache.layers[0].shape))
        attention = replace(self.attention, query_norm=self.norms[0].float(), key_norm=self.norms[1].float())
        expected = oracle.attend(attention, oracle.plan(self.batch), exact_cache, self.qkv.float())
        found = kernels.attend(self.attention, kernels.plan(self.batch), cache, self.qkv)
        stored = cache.layers[0].float()
        if getattr(cache, "scales", None) is not None:
            stored = stored * cache.scales[0].view(*stored.shape[:-1], 1)
        return max(error_of(found, expected), error_of(stored, exact_cache.layers[0].view(stored.shape)))


def layers_to_check(device: torch.device, quick: bool) -> Iterator[tuple[str, Layer]]:
    decodes = [(context, 1) for context in ((1, 17, 300) if quick else (1, 16, 17, 63, 129, 1000, 4097, 2048))]
    prompts = [(40, 9), (20, 20)] if quick else [(700, 300), (128, 128), (4000, 5), (333, 333), (2500, 2)]
    dtypes = (torch.float32,) if device.type == "cpu" else (torch.bfloat16, torch.float16, torch.float32)
    for dtype in dtypes:
        yield f"mixed, {dtype}", Layer(decodes + prompts, dtype, device)
    main = dtypes[0]
    for heads, kv_heads, head_dim in ((8, 8, 64), (9, 3, 64), (8, 2, 80), (6, 2, 96), (8, 1, 128), (4, 1, 256)):
        yield (
            f"{heads}/{kv_heads} heads of {head_dim}",
            Layer(decodes + prompts, main, device, heads, kv_heads, head_dim),
        )
    yield "window of 100", Layer(decodes + prompts, main, device, window=100)
    for block_size in (32, 64):
        yield f"blocks of {block_size}", Layer(decodes + prompts, main, device, block_size=block_size)
    if device.type == "cuda":
        yield "fp8 cache", Layer(decodes + prompts, main, device, cache_dtype=FP8)
        many = [(1 + 37 * index % 3000, 1) for index in range(256)]
        yield "256 ragged decodes", Layer(many, main, device)
        yield "one long decode", Layer([(32768, 1)], main, device)


def correctness(check: Check, kernels: Kernels, device: torch.device, quick: bool) -> None:
    """Rows `kernel: ...`: the error of each operation."""
    for name, layer in layers_to_check(device, quick):
        limit = LIMITS[layer.cache_dtype or layer.dtype]
        check.error(f"kernel: attention, {name}", lambda layer=layer: layer.error(kernels), limit)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    hidden, inner = (64, 96) if quick else (1024, 3072)
    for rows in (1, 2, 3, 4, 5, 33):
        for bits in (16, 8) if device.type == "cuda" else (16,):
            check.error(
                f"kernel: products of {rows} rows, {bits} bits",
                lambda rows=rows, bits=bits: product_error(kernels, rows, hidden, inner, bits, dtype, device),
                LIMITS[FP8 if bits == 8 else dtype],
            )

    if kernels.draw is not None:
        check.error("kernel: draws", lambda: draw_error(kernels, device), 1e-5)


def draw_error(kernels: Kernels, device: torch.device) -> float:
    """How far beside its token's share of the distribution a point lies, at worst; 1 if a greedy token is wrong."""
    assert kernels.draw is not None
    torch.manual_seed(0)
    logits = (3 * torch.randn(64, 151936, device=device)).bfloat16()
    points = torch.rand(64, device=device)
    found = kernels.draw(logits, torch.full((64,), 0.6, device=device), points)
    sums = (logits.double() / 0.6).softmax(-1).cumsum(-1)
    above = sums.gather(1, found[:, None])[:, 0]
    below = torch.where(found > 0, sums.gather(1, (found - 1).clamp_min(0)[:, None])[:, 0], 0)
    greedy = kernels.draw(logits, torch.zeros(64, device=device), points)
    wrong = (logits.gather(1, greedy[:, None])[:, 0] != logits.amax(-1)).double()
    return float(torch.maximum(torch.maximum(below - points, points - above), wrong).max())


def product_error(
    kernels: Kernels, rows: int, hidden: int, inner: int, bits: Any, dtype: torch.dtype, device: torch.device
) -> float:
    """The largest of norm, project, project_gated and add_projection (with and without a norm)."""
    torch.manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    x, norm, after = random(rows, hidden), 1 + random(hidden) / 4, 1 + random(hidden) / 4
    weight, bias = random(2 * inner, hidden) / hidden**0.5, random(2 * inner)
    back = random(hidden, inner) / inner**0.5
    residual, inner_x = random(rows, hidden), random(rows, inner)
    up, down = kernels.linear(weight, bias, bits), kernels.linear(back, None, bits)

    def rms(x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x.float(), weight.shape, weight.float(), 1e-6)

    projected = F.linear(rms(x, norm), weight.float(), bias.float())
    gate, value = projected.chunk(2, -1)
    added = F.linear(inner_x.float(), back.float())
    return max(
        error_of(kernels.norm(x, norm, 1e-6), rms(x, norm)),
        error_of(kernels.project(x, norm, 1e-6, up), projected),
        error_of(kernels.project_gated(x, norm, 1e-6, up, "silu"), F.silu(gate) * value),
        error_of(
            kernels.project_gated(x, norm, 1e-6, up, "gelu_tanh"), F.gelu(gate, approximate="tanh") * value
        ),
        error_of(kernels.add_projection(residual.clone(), inner_x, down), residual.float() + added),
        error_of(
            kernels.add_projection(residual.clone(), inner_x, down, after, 1e-6), residual.float() + rms(added, after)
        ),
    )  # fmt: skip
