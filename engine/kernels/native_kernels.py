"""NativeKernels: the operations of a decoder layer in C++, for bf16 on CPUs with AVX512-BF16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.errors import StartRefused
from engine.kernels.native import why_unavailable
from engine.kernels.native.packing import HUGE_PAGES, PANEL, pack_bf16, pack_int4, pack_int8
from engine.kernels.protocol import Activation, Attention, Bits, Draw, Linear
from engine.kv_cache import KVLayout
from engine.model_config import ModelConfig

if TYPE_CHECKING:
    from engine.batch import Batch

__all__ = ["NativeCache", "NativeKernels", "NativeLinear", "misfit", "why_not_native"]

ACTIVATIONS: dict[Activation, int] = {"silu": 1, "gelu_tanh": 2}


def why_not_native(dtype: torch.dtype, device: torch.device) -> str | None:
    """None where NativeKernels can serve such a model here, else the reason. May compile them (a few seconds)."""
    if device.type != "cpu":
        return f"native kernels are for the CPU, not {device.type}"
    if dtype != torch.bfloat16:
        return f"native kernels are for bf16, not {dtype}"
    return why_unavailable()


def misfit(config: ModelConfig, quantization: str) -> str | None:
    """Why NativeKernels can't compute such a model, by its shapes; None where they can."""
    step = 8 if quantization == "int4" else 2
    inputs = (config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim)
    if any(width % step for width in inputs):
        return f"inputs come in multiples of {step}, and the model has {inputs}"
    if config.head_dim % 16 or config.head_dim > 256:
        return f"heads have 16, 32 ... 256 values, and the model's have {config.head_dim}"
    return None


@dataclass(frozen=True, slots=True)
class NativeLinear:
    """y = x Wᵀ + b over a weight in panels of 32 outputs (`native/linear.h`); x is bf16, sums are fp32."""

    in_features: int
    out_features: int
    bits: Bits
    data: Tensor
    scales: Tensor | None
    bias: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None, bits: Bits = 16) -> NativeLinear:
        """A Linear over `weight` [out, in].

        Raises:
            StartRefused: kind bad_config; `in` is odd, or no multiple of 8 with 4 bits.
        """
        out_features, in_features = weight.shape
        step = 8 if bits == 4 else 2
        if in_features % step:
            raise StartRefused(
                "bad_config",
                f"native kernels need inputs in multiples of {step} for weights of {bits} bits, but the model has a "
                f"product of {out_features} x {in_features}; use --kernels torch",
            )
        pad = -out_features % PANEL
        if bits == 16:
            data, scales = pack_bf16(weight), None
        else:
            # Many small operations: threads would wait for each other more than they compute.
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                data, scales = (pack_int8 if bits == 8 else pack_int4)(weight)
            finally:
                torch.set_num_threads(threads)
        padded = None if bias is None else torch.nn.functional.pad(bias.float(), (0, pad)).contiguous()
        return cls(in_features, out_features, bits, data, scales, padded)

    @property
    def num_bytes(self) -> int:
        parts = (self.data, self.scales, self.bias)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)

    def __call__(self, x: Tensor) -> Tensor:
        return multiply(self, x, x.new_empty(len(x), self.out_features))


def multiply(
    linear: Linear,
    x: Tensor,
    to: Tensor,
    *,
    norm: Tensor | None = None,
    eps: float = 0.0,
    activation: int = 0,
    residual: Tensor | None = None,
    post_norm: Tensor | None = None,
) -> Tensor:
    """`to`, filled with linear(x) and what surrounds it: see `LinearCall` in `native/linear.h`."""
    assert isinstance(linear, NativeLinear)
    torch.ops.engine_native.linear.default(
        x,
        linear.data,
        linear.scales,
        linear.bias,
        linear.bits,
        linear.in_features,
        linear.out_features,
        norm,
        activation,
        residual,
        post_norm,
        eps,
        to,
    )
    return to


class NativeCache:
    """Keys and values of every layer in the layout of `native/attention.h`. Memory starts as zeros.

    Raises:
        StartRefused: kind bad_config; heads or blocks of a size that isn't made for registers of 16 values.
    """

    def __init__(self, layout: KVLayout, num_layers: int) -> None:
        self.layout = layout
        heads, blocks, size, dim = layout.num_kv_heads, layout.num_blocks, layout.block_size, layout.head_dim
        if dim % 16 or dim > 256 or size % 16:
            raise StartRefused(
                "bad_config",
                f"native kernels need heads of 16, 32 ... 256 values and blocks of 16, 32 ... tokens, not {dim} and "
                f"{size}; use --kernels torch",
            )
        room = heads * blocks * size * dim
        self.keys = [
            HUGE_PAGES.zeros(room, torch.bfloat16).view(heads, blocks, dim // 2, size, 2) for _ in range(num_layers)
        ]
        self.values = [
            HUGE_PAGES.zeros(room, torch.bfloat16).view(heads, blocks, size // 2, dim, 2) for _ in range(num_layers)
        ]

    @property
    def layers(self) -> list[Tensor]:
        return self.keys + self.values

    @property
    def num_bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self.layers)


def draw(logits: Tensor, temperatures: Tensor, points: Tensor) -> Tensor:
    """Token ids [n] from logits [n, vocab_size] bf16, temperatures [n] (0: the most likely), points [n] in [0, 1)."""
    to = torch.empty(len(logits), dtype=torch.int64)
    torch.ops.engine_native.draw.default(logits, temperatures, points, to)
    return to


class NativeKernels:
    """Kernels in C++ (`why_not_native` says where they work).

    A row's result never depends on the other rows of its batch, on how a prompt was cut into chunks, nor on the number
    of threads: every sum has one order. Prompts on Intel CPUs with AMX are better served by oneDNN, so by TorchKernels.
    """

    @property
    def draw(self) -> Draw:
        return draw

    def linear(self, weight: Tensor, bias: Tensor | None = None, bits: Bits = 16) -> NativeLinear:
        return NativeLinear.of(weight, bias, bits)

    def cache(self, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> NativeCache:
        reason = why_not_native(dtype, device)
        if reason is not None:
            raise StartRefused("bad_config", f"{reason}; use --kernels torch")
        return NativeCache(layout, num_layers)

    def plan(self, batch: Batch) -> Batch:
        return batch

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        to = torch.empty_like(x)
        torch.ops.engine_native.norm.default(x, weight, eps, to)
        return to

    def project(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear) -> Tensor:
        return multiply(linear, hidden, hidden.new_empty(len(hidden), linear.out_features), norm=norm, eps=eps)

    def project_gated(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear, activation: Activation) -> Tensor:
        code, width = ACTIVATIONS[activation], linear.out_features // 2
        to = hidden.new_empty(len(hidden), width)
        if width % PANEL == 0:
            return multiply(linear, hidden, to, norm=norm, eps=eps, activation=code)
        torch.ops.engine_native.gate.default(self.project(hidden, norm, eps, linear), code, to)
        return to

    def attend(self, attention: Attention, plan: Batch, cache: NativeCache, qkv: Tensor) -> Tensor:
        to = qkv.new_empty(len(qkv), attention.num_heads * attention.head_dim)
        torch.ops.engine_native.attend.default(
            qkv,
            cache.keys[attention.layer],
            cache.values[attention.layer],
            attention.rotary,
            plan.positions,
            plan.slots,
            plan.query_start,
            plan.context_lens,
            plan.block_tables,
            attention.num_kv_heads,
            attention.scale,
            attention.window,
            attention.query_norm,
            attention.key_norm,
            attention.eps,
            to,
        )
        return to

    def add_projection(
        self, hidden: Tensor, x: Tensor, linear: Linear, norm: Tensor | None = None, eps: float = 0.0
    ) -> Tensor:
        return multiply(linear, x, hidden, residual=hidden, post_norm=norm, eps=eps)
