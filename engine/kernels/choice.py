"""Which kernels run here: what was asked for, or the fastest that this machine has."""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.errors import StartRefused
from engine.kernels.protocol import Kernels
from engine.kernels.torch_kernels import TorchKernels
from engine.knobs import EngineKnobs, KernelsName
from engine.model_config import ModelConfig
from engine.resolve import TORCH_DTYPES

__all__ = ["choose_kernels"]


def choose_kernels(knobs: EngineKnobs, config: ModelConfig, say: Callable[[str], None]) -> tuple[KernelsName, Kernels]:
    """Kernels for resolved `knobs`, and what they are called.

    Args:
        say: told what takes long, and why something faster can't be had.

    Raises:
        StartRefused: kind bad_config; kernels that were asked for by name and can't run here, with the reason.
    """
    wanted: KernelsName = knobs.kernels
    if wanted == "auto":
        wanted = "triton" if knobs.device == "cuda" else "native" if knobs.dtype == "bf16" else "torch"
    if knobs.kv_cache_dtype == "fp8" and wanted != "triton":
        raise StartRefused("bad_config", f"--kv-cache-dtype is fp8, which {wanted} kernels can't read; use auto")
    if wanted == "torch":
        return wanted, TorchKernels()
    device = torch.device(knobs.device)
    if wanted == "native":
        from engine.kernels.native_kernels import NativeKernels, misfit, why_not_native

        reason = why_not_native(TORCH_DTYPES[knobs.dtype], device) or misfit(config, knobs.quantization)
        if not reason:
            return wanted, NativeKernels()
    else:
        from engine.kernels.triton_kernels import TritonKernels, unavailable

        reason = unavailable(device)
        if not reason:
            return wanted, TritonKernels(device)
    if knobs.kernels == wanted:
        raise StartRefused("bad_config", f"--kernels is {wanted}, which can't run here: {reason}; use --kernels auto")
    say(f"{wanted} kernels can't run here: {reason}; plain PyTorch computes instead")
    return "torch", TorchKernels()
