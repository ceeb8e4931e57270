"""Peak rates of this machine, printed as JSON: `python -m tools.profile.peak DEVICE THREADS SECONDS STEP_BYTES`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

__all__ = ["peak_flops_per_s", "peak_read_bytes_per_s"]

_READ_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
"""So large that memory is what is measured, and not a cache."""

_LEAST_BYTES = {"cpu": 1 << 20, "cuda": 32 << 20}
"""Less is read in no more time than a call takes."""

_SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (4096, 8192)}
"""Matrix sizes: the best size differs between machines."""


def peak_read_bytes_per_s(device: str, seconds: float, step_bytes: int = 0) -> float:
    """Best rate at which a sum runs through a buffer, in bytes per second: through a large one, or one of `step_bytes`
    where that is less, over and over, as steps read the weights of a model that a cache may hold."""
    sizes = {_READ_BYTES[device]}
    if 0 < step_bytes < _READ_BYTES[device]:
        sizes.add(max(step_bytes, _LEAST_BYTES[device]))
    best = 0.0
    for size in sorted(sizes):
        buffer = torch.ones(size // 4, dtype=torch.float32, device=device)
        best = max(best, buffer.numel() * 4 / _best_s(partial(torch.sum, buffer), device, seconds / len(sizes)))
    return best


def peak_flops_per_s(device: str, dtype: torch.dtype, seconds: float) -> float:
    """Best rate of a square matrix product, 2 n^3 operations, over a few sizes."""
    best = 0.0
    for size in _SIZES[device]:
        a = torch.randn(size, size, device=device).to(dtype)
        b = torch.randn(size, size, device=device).to(dtype)
        best = max(best, 2 * size**3 / _best_s(partial(torch.matmul, a, b), device, seconds / len(_SIZES[device])))
        if best and 2 * (2 * size) ** 3 / best > seconds:
            break  # no native arithmetic for this dtype: a larger size would take minutes
    return best


def _best_s(work: Callable[[], object], device: str, seconds: float) -> float:
    """Shortest of as many calls as fit in `seconds`, at least three."""
    best = float("inf")
    end = time.perf_counter() + seconds
    calls = 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best


def main(device: str, threads: int, seconds: float, step_bytes: int) -> None:
    """Measure with one thread and with all. Arithmetic scales with cores at best, so one thread's rate times the
    threads bounds it from above also while the machine is busy; bandwidth is shared, so its best is taken as found."""
    read, bf16, fp32 = [], [], []
    for count in sorted({threads, 1}) if device == "cpu" else [1]:
        torch.set_num_threads(count)
        share = seconds / 3 / (2 if threads > 1 else 1)
        scale = threads // count if device == "cpu" else 1
        read.append(peak_read_bytes_per_s(device, share, step_bytes))
        bf16.append(scale * peak_flops_per_s(device, torch.bfloat16, share))
        fp32.append(scale * peak_flops_per_s(device, torch.float32, share))
    rates = {"read_bytes_per_s": max(read), "flops_per_s_bf16": max(bf16), "flops_per_s_fp32": max(fp32)}
    print(json.dumps(rates))


if __name__ == "__main__":
    with torch.inference_mode():
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
