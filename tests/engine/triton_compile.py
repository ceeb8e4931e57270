"""Compile, without a GPU, every kernel that TritonKernels would launch for a range of models; `test_triton.py` runs
this file in a process of its own.

Prints one line of JSON per kernel and GPU: what the interpreter can't tell (does it compile, in bf16 and fp8 too, does
it fit the shared memory, is it compiled anew for each batch) or only a profiler would (are the tensor cores and
asynchronous copies used).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from engine.kernels.protocol import Attention
from engine.kernels.triton.linear import GpuLinear
from engine.kernels.triton_kernels import TritonKernels
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch

FP8, BF16 = torch.float8_e4m3fn, torch.bfloat16
CPU = torch.device("cpu")


class AbsentGpu:
    """What Triton asks of a driver before it compiles. `number` keeps the kernels of different GPUs apart."""

    def __init__(self, number: int, capability: int) -> None:
        self._number = number
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_device(self) -> int:
        return self._number

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self._target


def compiled_by(work: Callable[[], None]) -> list[tuple[Any, dict[str, Any]]]:
    """The kernels that `work` would launch, compiled for the absent GPU, each once, with their constants."""
    found: dict[int, tuple[Any, dict[str, Any]]] = {}
    run = JITFunction.run

    def compile_only(self: JITFunction[Any], *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        constants = {name: value for name, value in kwargs.items() if name.isupper()}
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        found[id(kernel)] = kernel, constants

    with patch.object(JITFunction, "run", compile_only):
        work()
    return list(found.values())


class Layer:
    """One layer of a model."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, cache: torch.dtype, window: int, bits: int) -> None:
        self.kernels = TritonKernels(CPU)
        self.layout = KVLayout(800, 16, kv_heads, head_dim)
        norm = torch.ones(head_dim)
        self.attention = Attention(
            0, torch.ones(2048, 2, head_dim // 2), heads, kv_heads, head_dim, 1.0, window, norm, norm
        )
        self.cache = self.kernels.cache(self.layout, 1, cache, CPU)
        self.bits = bits

    def attend(self, lengths: list[tuple[int, int]]) -> None:
        batch = make_batch(lengths, Pages(self.layout))
        width = (self.attention.num_heads + 2 * self.attention.num_kv_heads) * self.attention.head_dim
        qkv = torch.ones(sum(new for _, new in lengths), width, dtype=BF16)
        self.kernels.attend(self.attention, self.kernels.plan(batch), self.cache, qkv)

    def products(self, rows: int) -> None:
        kernels, x, weight = self.kernels, torch.ones(rows, 256, dtype=BF16), torch.ones(256, dtype=BF16)
        stored = FP8 if self.bits == 8 else None
        wide = GpuLinear.of(torch.ones(512, 256, dtype=BF16), None, stored)
        square = GpuLinear.of(torch.ones(256, 256, dtype=BF16), None, stored)
        if rows > 4 and stored:
            return  # what follows the first kernel can't be computed on a CPU
        kernels.project(x, weight, 1e-6, wide)
        kernels.project_gated(x, weight, 1e-6, wide, "gelu_tanh")
        kernels.add_projection(x, x, square)
        kernels.add_projection(x, x, square, weight, 1e-6)

    def draw(self) -> None:
        assert self.kernels.draw is not None
        self.kernels.draw(torch.ones(2, 20000, dtype=BF16), torch.ones(2), torch.ones(2))

    def all(self) -> None:
        for lengths in ([(300, 1), (200, 1)], [(300, 1), (400, 300)], [(20, 3)]):
            self.attend(lengths)
        self.products(1)
        self.products(8)
        self.draw()

    def serve(self) -> None:
        """Steps as they come: any number of sequences, any lengths."""
        chance = random.Random(0)
        for _ in range(40):
            decodes = [(chance.randint(1, 900), 1) for _ in range(chance.randint(0, 7))]
            prompts = [(new + chance.randint(0, 300), new) for new in (chance.randint(2, 300),)] * chance.randint(0, 2)
            if decodes or prompts:
                self.attend(decodes + prompts)
            self.products(chance.randint(1, 9))


def main() -> None:
    models: list[tuple[int, list[tuple[int, int, int, torch.dtype, int, int]]]] = [
        (90, [(16, 8, 128, BF16, 0, 16), (16, 8, 128, FP8, 0, 8), (9, 3, 64, BF16, 0, 16)]),
        (89, [(16, 8, 128, FP8, 0, 8), (4, 1, 256, BF16, 512, 16)]),
        (80, [(16, 8, 128, BF16, 0, 16)]),
    ]
    for number, (capability, shapes) in enumerate(models):
        driver.set_active(AbsentGpu(number, capability))
        for shape in shapes:
            for kernel, constants in compiled_by(Layer(*shape).all):
                ptx = kernel.asm["ptx"]
                row = {
                    "kernel": kernel.metadata.name,
                    "capability": capability,
                    "shared_bytes": kernel.metadata.shared,
                    "wgmma": "wgmma.mma_async" in ptx,
                    "mma": "mma.sync" in ptx,
                    "copies": "cp.async" in ptx,
                    "constants": constants,
                }
                print(json.dumps(row, default=str), flush=True)
    driver.set_active(AbsentGpu(len(models), 90))
    names = [kernel.metadata.name for kernel, _ in compiled_by(Layer(16, 8, 128, BF16, 0, 16).serve)]
    print(json.dumps({"kernel": "all", "variants": {name: names.count(name) for name in sorted(set(names))}}))


if __name__ == "__main__":
    main()
