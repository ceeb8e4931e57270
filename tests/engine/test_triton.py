"""The Triton kernels, without a GPU: run in Triton's interpreter, and compiled for GPUs that aren't here.

Whether triton interprets or compiles is decided when it is imported, so each way has a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton isn't installed")

ROOT = Path(__file__).parents[2]
LEAST_SHARED_BYTES = {80: 163 << 10, 89: 99 << 10, 90: 227 << 10}
"What a block may have, by compute capability; 8.9 has as little as any since 8.0."

MOST_VARIANTS = {
    "attend_part": 1,
    "merge_parts": 1,
    "attend_run": 4,
    "rotate_heads": 1,
    "norm_rows": 2,
    "gate_rows": 1,
    "multiply_rows": 4,
    "draw_row": 1,
}
"""Of each kernel, for one model: by shape of the tile, by what is folded in, and never by what a batch holds."""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**environment, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


CASES = ("tests/engine/triton_attention_cases.py", "tests/engine/triton_cases.py")
PARTS = ("TestAttention", "TestStore or TestSplits or TestDraw", "TestLinear or TestKernels")


@pytest.mark.parametrize("part", [*PARTS, f"not ({' or '.join(PARTS)})"])
def test_every_kernel_agrees_with_pytorch_in_the_interpreter(part: str) -> None:
    command = ("pytest", *CASES, "-p", "no:cacheprovider", "-k", part)
    done = run(*command, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    done = run("tests.engine.triton_compile", TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton")))
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_kernel_compiles_and_fits(compiled: list[dict[str, Any]]) -> None:
    kernels = compiled[:-1]
    assert {kernel["kernel"] for kernel in kernels} == set(MOST_VARIANTS)
    for kernel in kernels:
        assert kernel["shared_bytes"] <= LEAST_SHARED_BYTES[kernel["capability"]], kernel
        if kernel["kernel"] == "attend_part":
            assert kernel["mma"] and kernel["copies"], kernel
        if kernel["kernel"] == "attend_run":
            wide = kernel["capability"] == 90 and kernel["constants"]["ROWS"] >= 64
            assert kernel["copies"] and (kernel["wgmma"] if wide else kernel["mma"]), kernel


def test_no_kernel_is_compiled_anew_for_another_batch(compiled: list[dict[str, Any]]) -> None:
    variants = compiled[-1]["variants"]
    assert {name: count for name, count in variants.items() if count > MOST_VARIANTS[name]} == {}
