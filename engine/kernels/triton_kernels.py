"""TritonKernels: the operations of a decoder layer on an NVIDIA GPU, fused where that saves a pass or a launch."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.errors import StartRefused
from engine.kernels.protocol import Activation, Attention, Bits, Draw, Linear
from engine.kernels.torch_kernels import TorchKernels

if TYPE_CHECKING:
    from engine.batch import Batch
    from engine.kernels.triton.paged import PagedCache
    from engine.kv_cache import KVLayout

__all__ = ["TritonKernels", "unavailable"]


def unavailable(device: torch.device) -> str:
    """Why these kernels can't run on `device`; empty where they can."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton isn't installed"
    if device.type != "cuda" or torch.version.cuda is None:
        return f"they are for NVIDIA GPUs, and the device is {device.type}" + (" of AMD" if torch.version.hip else "")
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < (8, 0):
        return f"they need compute capability 8.0 or later, and the GPU has {major}.{minor}"
    return ""


class TritonKernels:
    """Kernels for CUDA. Everything here can be captured in a CUDA graph: nothing waits for the GPU, and nothing that a
    launch is given depends on what a tensor holds."""

    def __init__(self, device: torch.device) -> None:
        # Not imported above: a machine without Triton can still ask `unavailable`.
        from engine.kernels.triton import (
            decode,
            draw,
            gated,
            linear,
            norm,
            paged,
            prefill,
            rotary_store,
            skinny,
            splits,
        )

        self._decode, self._splits, self._prefill, self._rotary = decode, splits, prefill, rotary_store
        self._gated, self._linear, self._norm, self._paged, self._skinny = gated, linear, norm, paged, skinny
        self.draw: Draw | None = draw.draw
        # On a CPU they run in Triton's interpreter, for tests; an H200's count stands in.
        cuda = device.type == "cuda"
        self._processors = torch.cuda.get_device_properties(device).multi_processor_count if cuda else 132

    def linear(self, weight: Tensor, bias: Tensor | None = None, bits: Bits = 16) -> Linear:
        """8 bits are fp8 where the GPU multiplies it, else int8."""
        if bits == 4:
            return TorchKernels().linear(weight, bias, bits)
        eight = torch.float8_e4m3fn if self._linear.has_fp8() else torch.int8
        return self._linear.GpuLinear.of(weight, bias, eight if bits == 8 else None)

    def cache(self, layout: KVLayout, num_layers: int, dtype: torch.dtype, device: torch.device) -> PagedCache:
        """In fp8 (e4m3) each token and head has a scale of its own."""
        if dtype == torch.float8_e4m3fn and device.type == "cuda" and not self._linear.has_fp8():
            raise StartRefused(
                "bad_config", "an fp8 KV cache needs a GPU of compute capability 8.9 or later; choose another format"
            )
        return self._paged.PagedCache.of(layout, num_layers, dtype, device)

    def plan(self, batch: Batch) -> Batch:
        """Nothing is worked out beforehand: the kernels read the batch."""
        return batch

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._norm.rms_norm(x, weight, eps)

    def project(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear) -> Tensor:
        if isinstance(linear, self._linear.GpuLinear):
            if hidden.shape[0] <= self._skinny.MOST_ROWS:
                return linear.skinny(hidden, norm=norm, eps=eps, processors=self._processors)
            if linear.takes_fp8:
                return linear.fp8_product(*self._norm.rms_norm_quantised(hidden, norm, eps), hidden.dtype)
        return linear(self._norm.rms_norm(hidden, norm, eps))

    def project_gated(self, hidden: Tensor, norm: Tensor, eps: float, linear: Linear, activation: Activation) -> Tensor:
        if isinstance(linear, self._linear.GpuLinear) and hidden.shape[0] <= self._skinny.MOST_ROWS:
            return linear.skinny(hidden, norm=norm, eps=eps, activation=activation, processors=self._processors)
        return self._gated.gated(self.project(hidden, norm, eps, linear), activation)

    def attend(self, attention: Attention, plan: Batch, cache: PagedCache, qkv: Tensor) -> Tensor:
        queries = self._rotary.rotate_and_store(attention, cache, plan.positions, plan.slots, qkv)
        out = torch.empty_like(queries)
        layer, scale, window, num_heads = attention.layer, attention.scale, attention.window, attention.num_heads
        if plan.num_decodes:
            context = min(plan.max_context_len, window or plan.max_context_len)
            self._decode.decode(
                queries,
                cache,
                layer,
                plan.block_tables,
                plan.context_lens[: plan.num_decodes],
                out,
                num_heads=num_heads,
                scale=scale,
                window=window,
                splits=self._splits.choose_splits(
                    plan.num_decodes, attention.num_kv_heads, context, self._processors
                ),
            )  # fmt: skip
        if plan.context_lens.shape[0] > plan.num_decodes:
            self._prefill.prefill(
                queries,
                cache,
                layer,
                plan.block_tables,
                plan.context_lens,
                plan.query_start,
                out,
                num_heads=num_heads,
                scale=scale,
                window=window,
                num_decodes=plan.num_decodes,
                max_query_len=plan.max_query_len,
                processors=self._processors,
            )
        return out

    def add_projection(
        self, hidden: Tensor, x: Tensor, linear: Linear, norm: Tensor | None = None, eps: float = 0.0
    ) -> Tensor:
        """In place."""
        if norm is not None:
            return self._norm.add_norm(hidden, linear(x), norm, eps)
        if isinstance(linear, self._linear.GpuLinear):
            if hidden.shape[0] <= self._skinny.MOST_ROWS:
                return linear.skinny(x, residual=hidden, processors=self._processors)
            if linear.scales is None and linear.bias is None:
                # cuBLAS adds it before it rounds, without a pass of its own.
                return hidden.addmm_(x, linear.weight.t())
        return hidden.add_(linear(x))
