"""Parts of gpu_check: how near the kernels come to the memory's bandwidth."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu_kernels import FP8, Layer
from benchmarks.gpu_rows import Check
from engine.kernels import Kernels

__all__ = [
    "attention_speed",
    "busy_share",
    "copy_bandwidth",
    "draw_speed",
    "linear_speed",
    "product_flops",
    "tile_sweep",
]


def seconds_of(call: Callable[[], Any], device: torch.device, repeats: int = 20) -> float:
    """Median seconds of `call` on the device, after three to warm up."""
    for _ in range(3):
        call()
    if device.type != "cuda":
        times = []
        for _ in range(repeats):
            started_s = time.perf_counter()
            call()
            times.append(time.perf_counter() - started_s)
        return statistics.median(times)
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) / 1e3 for start, end in events)


def copy_bandwidth(device: torch.device, count: int) -> float:
    """Bytes read and written per second by a copy of `count` fp32 values."""
    values = torch.randn(count, device=device)
    target = torch.empty_like(values)
    return 2 * values.numel() * 4 / seconds_of(lambda: target.copy_(values), device)


def product_flops(device: torch.device, size: int) -> float:
    """FLOP/s of a product of two square matrices, in bf16 on a GPU."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: left @ right, device)


def attention_speed(check: Check, kernels: Kernels, device: torch.device, bandwidth: float, quick: bool) -> None:
    """Rows `decode attention ...`: bytes of keys and values over attend's time, as a share of `bandwidth` (B/s)."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    sizes = [(2, 64)] if quick else [(1, 4096), (16, 1024), (16, 8192), (64, 1024), (256, 1024)]
    for cache_dtype in (dtype, FP8) if device.type == "cuda" else (dtype,):
        for sequences, context in sizes:

            def measure(
                count: int = sequences, context: int = context, cache_dtype: torch.dtype = cache_dtype
            ) -> float:
                # Several layers in turn: one alone would lie in the second-level cache.
                layer = Layer(
                    [(context, 1)] * count, dtype, device, cache_dtype=cache_dtype, num_layers=1 if quick else 8
                )
                cache, plan = layer.cache(kernels), kernels.plan(layer.batch)
                layers = [replace(layer.attention, layer=index) for index in range(layer.num_layers)]

                def all_layers() -> None:
                    for attention in layers:
                        kernels.attend(attention, plan, cache, layer.qkv)

                return layer.read_bytes / seconds_of(graphed(all_layers, device), device) / bandwidth

            goal = 0.75 if context >= 1024 and sequences >= 16 and cache_dtype == dtype else None
            check.share(f"decode attention, {sequences} x {context}, {cache_dtype}", measure, goal)


def graphed(call: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """`call` as a CUDA graph, so that launching it costs nothing."""
    if device.type != "cuda":
        return call
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def linear_speed(check: Check, kernels: Kernels, device: torch.device, bandwidth: float, quick: bool) -> None:
    """Rows `gate and up ...`: bytes of weights over time; beside it what PyTorch's own operations take in 16 bits."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    hidden, inner = (64, 128) if quick else (4096, 12288)
    norm = torch.ones(hidden, dtype=dtype, device=device)
    weights = [torch.randn(2 * inner, hidden, device=device).to(dtype) / 64 for _ in range(1 if quick else 4)]

    def plain(x: Tensor) -> None:
        for weight in weights:
            gate, up = F.linear(F.rms_norm(x, norm.shape, norm, 1e-6), weight).chunk(2, -1)
            F.silu(gate).mul_(up)

    def ours(x: Tensor, linears: list[Any]) -> None:
        for linear in linears:
            kernels.project_gated(x, norm, 1e-6, linear, "silu")

    for bits in (16, 8) if device.type == "cuda" else (16,):
        linears = [kernels.linear(weight, None, bits) for weight in weights]
        size = sum(linear.num_bytes for linear in linears)
        for rows in (1, 2, 4, 8, 64):

            def measure(rows: int = rows, linears: list[Any] = linears, size: int = size) -> float:
                x = torch.randn(rows, hidden, device=device).to(dtype)
                seconds = seconds_of(graphed(lambda: ours(x, linears), device), device)
                check.note(f"{seconds_of(graphed(lambda: plain(x), device), device) / seconds:.2f} x plain PyTorch")
                return size / seconds / bandwidth

            goal = None if rows > 1 or device.type == "cpu" else 0.8 if bits == 16 else 0.6
            check.share(f"gate and up, {rows} rows, {bits} bits", measure, goal)


def draw_speed(check: Check, kernels: Kernels, device: torch.device, bandwidth: float) -> None:
    """Rows `draw ...`: two reads of the logits over time."""
    for rows in (1, 256):

        def measure(rows: int = rows) -> float:
            assert kernels.draw is not None
            draw, logits = kernels.draw, torch.randn(rows, 151936, device=device).bfloat16()
            heat, points = torch.full((rows,), 0.6, device=device), torch.rand(rows, device=device)
            seconds = seconds_of(graphed(lambda: draw(logits, heat, points), device), device)
            check.note(f"{seconds * 1e6:.0f} us")
            return 2 * logits.numel() * 2 / seconds / bandwidth

        check.share(f"draw, {rows} x 151936", measure)


def tile_sweep(check: Check, device: torch.device, bandwidth: float) -> None:
    """Rows `tile ...`: the three best shapes of the decode kernel; what to change `decode_tile` to, if anything."""
    from engine.kernels.triton.decode import decode_tile
    from engine.kernels.triton_kernels import TritonKernels

    for sequences, context, stored in ((16, 1024, torch.bfloat16), (128, 1024, torch.bfloat16), (128, 1024, FP8)):
        layer = Layer([(context, 1)] * sequences, torch.bfloat16, device, cache_dtype=stored, num_layers=8)
        cache = layer.cache(TritonKernels(device))
        found = []
        for shape in itertools.product((32, 64, 128), (2, 4, 8), (2, 3, 5)):
            if check.left_s < 10:
                break
            try:
                found.append((tile_share(layer, cache, shape, bandwidth), shape))
            except Exception as error:  # noqa: BLE001  # a shape that doesn't fit is a result
                print(f"tile {shape}: {str(error)[:200]}")
        used = decode_tile(layer.head_dim, stored.itemsize)
        for share, shape in sorted(found, reverse=True)[:3]:
            chosen = " (in use)" if shape == (used.tokens, used.warps, used.stages) else ""
            name = "tile of {} tokens, {} warps, {} stages".format(*shape)
            check.row(f"{name}, {sequences} x {context}, {stored}{chosen}", round(share, 3), "-", None)


def tile_share(layer: Layer, cache: Any, shape: tuple[int, int, int], bandwidth: float) -> float:
    from engine.kernels.triton.decode import DecodeTile, decode
    from engine.kernels.triton.splits import choose_splits

    batch, device, (sequences, context) = layer.batch, layer.device, (len(layer.lengths), layer.lengths[0][0])
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    splits = choose_splits(sequences, layer.num_kv_heads, context, processors)
    queries = layer.random(sequences, layer.num_heads * layer.head_dim).to(layer.dtype)
    out = torch.empty_like(queries)

    def all_layers() -> None:
        for index in range(layer.num_layers):
            decode(
                queries, cache, index, batch.block_tables, batch.context_lens, out,
                num_heads=layer.num_heads, scale=0.1, splits=splits, tile=DecodeTile(*shape),
            )  # fmt: skip

    return layer.read_bytes / seconds_of(graphed(all_layers, device), device, 10) / bandwidth


def busy_share(profile: torch.profiler.profile, cuda: bool) -> float:
    """Share of the time from the first kernel's start to the last one's end in which at least one runs."""
    kind = torch.autograd.DeviceType.CUDA if cuda else torch.autograd.DeviceType.CPU
    spans = sorted((e.time_range.start, e.time_range.end) for e in profile.events() if e.device_type == kind)
    busy, until = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy / (until - spans[0][0])
