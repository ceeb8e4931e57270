"""Resolving: knobs whose value stands for `what this model and machine suggest` get it, once, at start-up."""

from __future__ import annotations

import dataclasses

import torch

from engine.device import available_cores, available_memory_bytes
from engine.errors import StartRefused
from engine.kernels.torch_linear import can_prepack, native_bf16
from engine.knobs import DtypeName, EngineKnobs
from engine.limits import context_limit
from engine.memory import MemoryPlan, plan_memory
from engine.model_config import ModelConfig

__all__ = ["TORCH_DTYPES", "require_memory", "resolve"]

TORCH_DTYPES: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def resolve(knobs: EngineKnobs, model: ModelConfig) -> EngineKnobs:
    """`knobs` with every placeholder replaced. A value that was given is never changed, only refused.

    Raises:
        StartRefused: kind bad_config; knobs that this model, or this machine, can't honour.
    """
    if knobs.device == "cuda" and not torch.cuda.is_available():
        raise StartRefused("bad_config", "--device is cuda, but PyTorch finds no CUDA device here; use --device cpu")
    if knobs.kv_cache_dtype == "fp8" and (knobs.device != "cuda" or torch.cuda.get_device_capability() < (8, 9)):
        raise StartRefused(
            "bad_config",
            "--kv-cache-dtype is fp8, which needs an NVIDIA GPU of compute capability 8.9 or later; use auto",
        )
    return dataclasses.replace(
        knobs,
        max_model_len=context_limit(knobs, model),
        dtype=resolve_dtype(knobs, model),
        num_threads=knobs.num_threads or available_cores(),
        async_scheduling=("on" if knobs.device == "cuda" else "off")
        if knobs.async_scheduling == "auto"
        else knobs.async_scheduling,
    )


def resolve_dtype(knobs: EngineKnobs, model: ModelConfig) -> DtypeName:
    if knobs.dtype != "auto":
        return knobs.dtype
    own: DtypeName = {"bfloat16": "bf16", "float16": "fp16"}.get(model.dtype, "fp32")  # type: ignore[assignment]
    if knobs.device == "cuda" or (own == "bf16" and native_bf16()):
        return own
    return "fp32"


def require_memory(knobs: EngineKnobs, model: ModelConfig) -> MemoryPlan:
    """The memory plan of resolved `knobs`, if the device has that much.

    Raises:
        StartRefused: kind oom, with the largest parts.
    """
    device = torch.device(knobs.device)
    plan = plan_memory(model, knobs, prepacked=can_prepack(TORCH_DTYPES[knobs.dtype], device))
    free = torch.cuda.mem_get_info()[0] if device.type == "cuda" else available_memory_bytes()
    if plan.total_bytes > free:
        largest = sorted(plan.parts.items(), key=lambda part: -part[1])[:3]
        parts = ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in largest)
        raise StartRefused(
            "oom",
            f"needs {plan.total_bytes / 2**30:.2f} GiB, but {free / 2**30:.2f} GiB are free ({parts}); "
            "lower --kv-cache-tokens or --max-num-batched-tokens",
        )
    return plan
