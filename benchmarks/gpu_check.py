"""Does the GPU path compute what it should, and how fast: `python benchmarks/gpu_check.py` on a machine with one GPU.

    python benchmarks/gpu_check.py [--part NAME ...] [--budget-s 460] [--device cuda|cpu] [--quick]

Needs torch, triton, transformers and nothing to download: weights are random, prompts are token ids. One line of JSON
per row, then all rows as a table. A part that fails prints its traceback and costs its own rows only; one that would
not end within the budget is left out, with a row that says so. Exit code 1 if a row failed.

Parts, in order: kernels (each against PyTorch in fp32), engine (greedy tokens with Triton, graphs and overlap against
plain PyTorch), nano (nano-vllm's benchmark: 256 sequences, input and output U(100, 1024), seed 0), attention, linear,
draw (sampling by temperature), single (one sequence: 0.6B, 1.7B, 8B), busy (share of the time in which the GPU
computes), transformers (its continuous batching on the same requests), tiles (other shapes of the decode kernel).
`--device cpu --quick` runs the script itself, with a tiny model and PyTorch's kernels.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gpu_engine import EngineCheck
from benchmarks.gpu_kernels import correctness
from benchmarks.gpu_rows import Check
from benchmarks.gpu_speed import (
    attention_speed,
    copy_bandwidth,
    draw_speed,
    linear_speed,
    product_flops,
    tile_sweep,
)
from engine.kernels import Kernels
from engine.kernels.torch_kernels import TorchKernels

PARTS = ("kernels", "engine", "nano", "attention", "linear", "draw", "single", "busy", "transformers", "tiles")


def kernels_for(device: torch.device) -> Kernels:
    if device.type == "cpu":
        return TorchKernels()
    from engine.kernels.triton_kernels import TritonKernels

    return TritonKernels(device)


def parts_of(check: Check, device: torch.device, quick: bool) -> dict[str, Callable[[], None]]:
    """What each part runs; first, rows for the two ceilings of the machine."""
    bandwidth = copy_bandwidth(device, 1 << 22 if quick else 1 << 30)
    flops = product_flops(device, 256 if quick else 8192)
    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if cuda else "CPU"
    check.row("copy bandwidth, GB/s", round(bandwidth / 1e9), "-", None, f"{name}, torch {torch.__version__}")
    check.row("matrix product, TFLOP/s", round(flops / 1e12, 1), "-", None)
    kernels = kernels_for(device)
    engines = EngineCheck(check, cuda, quick, bandwidth, flops)
    return {
        "kernels": lambda: correctness(check, kernels, device, quick),
        "engine": engines.agreement,
        "nano": engines.nano,
        "attention": lambda: attention_speed(check, kernels, device, bandwidth, quick),
        "linear": lambda: linear_speed(check, kernels, device, bandwidth, quick),
        "draw": lambda: draw_speed(check, kernels, device, bandwidth) if kernels.draw is not None else None,
        "single": engines.single,
        "busy": engines.busy,
        "transformers": engines.transformers,
        "tiles": lambda: tile_sweep(check, device, bandwidth) if cuda else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be given again")
    parser.add_argument("--budget-s", type=float, default=460, help="seconds after which no row is begun")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    check = Check(options.budget_s)
    parts = parts_of(check, torch.device(options.device), options.quick)
    for part in options.part or PARTS:
        # What prepares several rows may fail as well as a row.
        check.guard(part, parts[part])
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
    print("\n" + check.table())
    return 1 if any(row["ok"] is False for row in check.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
