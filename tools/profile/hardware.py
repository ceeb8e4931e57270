"""Hardware: the machine and the software that a measurement holds for, and its fingerprint."""

from __future__ import annotations

import math
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.canonical import digest

__all__ = ["Hardware", "hardware"]

_FLAGS = frozenset(
    {"avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"}
    | {"asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"}
)
_PACKAGES = ("torch", "transformers", "safetensors", "tokenizers")
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Hardware:
    """Where a measurement was made. Two measurements with different fingerprints are never compared."""

    cpu_model: str
    cores: int
    "CPU cores this process may use, after affinity and container limits."
    memory_bytes: int
    "Memory this process may use, after container limits."
    cpu_flags: tuple[str, ...]
    "Instruction sets that decide how fast a matrix product is."
    gpus: tuple[str, ...]
    "One `name, memory, driver` per GPU."
    gpu_memory_bytes: int
    "Memory of the smallest GPU; 0 without one."
    os: str
    python: str
    packages: tuple[str, ...]
    "`name version` of what computes."

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over all fields, 64 hex digits."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def hardware() -> Hardware:
    """This machine, as the OS and the installed packages describe it; torch isn't imported."""
    cpu = _cpu_info()
    gpus = _gpus()
    return Hardware(
        cpu_model=cpu.get("model name") or cpu.get("CPU part") or platform.processor() or platform.machine(),
        cores=_cores(),
        memory_bytes=_memory_bytes(),
        cpu_flags=tuple(sorted(_FLAGS & set((cpu.get("flags") or cpu.get("Features") or "").split()))),
        gpus=gpus,
        gpu_memory_bytes=min((_mib(gpu) << 20 for gpu in gpus), default=0),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages=tuple(f"{name} {version}" for name in _PACKAGES if (version := _version(name))),
    )


def _cpu_info() -> dict[str, str]:
    """Fields of the first processor in /proc/cpuinfo; empty where there is no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cores() -> int:
    """Cores of the affinity mask, or fewer where a container's CPU quota is lower (cgroup v2, then v1)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = _read(_CGROUP / "cpu.max").split() or [
        _read(_CGROUP / "cpu/cpu.cfs_quota_us").strip(),
        _read(_CGROUP / "cpu/cpu.cfs_period_us").strip(),
    ]
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
        cores = min(cores, max(1, math.ceil(int(words[0]) / int(words[1]))))
    return cores


def _memory_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (_read(_CGROUP / "memory.max"), _read(_CGROUP / "memory/memory.limit_in_bytes"))
    return min([total, *(int(limit) for limit in limits if limit.strip().isdigit())])


def _gpus() -> tuple[str, ...]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(query, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in run.stdout.splitlines() if line.strip()) if run.returncode == 0 else ()


def _mib(gpu: str) -> int:
    """`NVIDIA H200, 143771 MiB, 580.1` -> 143771."""
    words = gpu.split(",")[1].split() if gpu.count(",") >= 2 else []
    return int(words[0]) if words and words[0].isdigit() else 0


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
