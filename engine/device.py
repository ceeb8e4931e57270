"""What the machine gives this process: cores and memory, within the limits of its container."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_cores", "available_memory_bytes"]

CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = CGROUP) -> int:
    """Cores this process may use: its affinity, and its container's quota rounded up."""
    cores = len(os.sched_getaffinity(0))
    quota = read(cgroup / "cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        cores = min(cores, max(1, -(-int(quota[0]) // int(quota[1]))))
    return cores


def available_memory_bytes(cgroup: Path = CGROUP, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes of main memory that can still be taken: what the system has available, within the container's limit."""
    available = next(
        int(line.split()[1]) << 10 for line in read(meminfo).splitlines() if line.startswith("MemAvailable")
    )
    limit = read(cgroup / "memory.max").strip()
    if limit.isdigit():
        # Page cache counts as used there but is given back on demand.
        statistics = dict(line.split() for line in read(cgroup / "memory.stat").splitlines())
        used = int(read(cgroup / "memory.current") or 0) - int(statistics.get("file", 0))
        available = min(available, int(limit) - used)
    return available


def read(path: Path) -> str:
    """Text of a file of the kernel; empty where this kernel or container has no such file."""
    return path.read_text() if path.is_file() else ""
