"""Roofline: the machine's best read bandwidth and arithmetic, and the latencies that follow as lower bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from tools.errors import UserError

__all__ = ["SAFETY", "Floor", "ModelFacts", "Roofline", "floor_ms", "measure_roofline"]

SAFETY = 1.3
"""The floors assume a machine this much faster than the best that was measured, so that no honest result is refused."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """The best of many repeats; sustained rates are lower."""

    read_bytes_per_s: float
    flops_per_s_bf16: float
    flops_per_s_fp32: float
    device: str = "cpu"
    threads: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Roofline:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a token costs, as the checkpoint states it."""

    step_bytes: int
    "Bytes of weights that every step reads: all but an input embedding that isn't also the output head."
    token_parameters: int
    "Parameters that multiply every prompt token: all but embedding and output head."

    @classmethod
    def read(cls, model_dir: Path) -> ModelFacts:
        """From the headers of the *.safetensors files in `model_dir`.

        Raises:
            UserError: no such files, or a header that can't be read.
        """
        tensors: dict[str, dict[str, Any]] = {}
        for file in sorted(model_dir.glob("*.safetensors")):
            tensors |= _header(file)
        if not tensors:
            raise UserError(f"{model_dir}: expected *.safetensors files, found none")
        embedding = {name for name in tensors if name.endswith(("embed_tokens.weight", "wte.weight"))}
        head = {name for name in tensors if name.endswith("lm_head.weight")}
        sizes = {name: end - start for name, (start, end) in ((n, t["data_offsets"]) for n, t in tensors.items())}
        counts = {name: prod(tensor["shape"]) for name, tensor in tensors.items()}
        return cls(
            step_bytes=sum(size for name, size in sizes.items() if not (head and name in embedding)),
            token_parameters=sum(count for name, count in counts.items() if name not in embedding | head),
        )


@dataclass(frozen=True, slots=True)
class Floor:
    """Latencies in ms that can't be undercut."""

    ttft_ms: float
    tpot_ms: float


def floor_ms(roofline: Roofline, facts: ModelFacts, prompt_tokens: int) -> Floor:
    """Lower bounds for one request, after Williams et al. 2009: time >= work / peak, for each resource on its own.

    - TPOT >= step_bytes / bandwidth: each token needs a step, and a step reads the weights once. (Not so with
      speculative decoding, where a step yields several tokens of one sequence.)
    - TTFT >= the larger of the same, and 2 * token_parameters * prompt_tokens / arithmetic: a multiplication and an
      addition per parameter and token. Attention and the output head are left out.

    Both are divided by SAFETY. `prompt_tokens` are those to compute: not those that the prefix cache may hold.
    """
    step_s = facts.step_bytes / roofline.read_bytes_per_s
    flops_per_s = max(roofline.flops_per_s_bf16, roofline.flops_per_s_fp32)
    compute_s = 2 * facts.token_parameters * prompt_tokens / flops_per_s
    return Floor(ttft_ms=1000 * max(step_s, compute_s) / SAFETY, tpot_ms=1000 * step_s / SAFETY)


def measure_roofline(*, device: str = "cpu", threads: int | None = None, seconds: float = 2.0) -> Roofline:
    """Measure this machine for about `seconds`, in a process of its own, with `threads` or all usable cores.

    Raises:
        UserError: the measuring process failed; the message ends with its last words.
    """
    threads = threads or len(os.sched_getaffinity(0))
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-P", "-m", "tools.profile.peak", device, str(threads), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if run.returncode:
        said = "\n".join(run.stderr.strip().splitlines()[-3:])
        raise UserError(f"the machine's roofline couldn't be measured on {device} (exit {run.returncode}):\n{said}")
    return Roofline(**json.loads(run.stdout), device=device, threads=threads)


def _header(file: Path) -> dict[str, dict[str, Any]]:
    """Tensors of a safetensors file: name -> dtype, shape, data_offsets. The first 8 bytes hold the header's length."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header: dict[str, dict[str, Any]] = json.loads(stream.read(length))
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        raise UserError(f"{file}: expected a safetensors file, found one whose header can't be read: {error}") from None
    header.pop("__metadata__", None)
    return header
