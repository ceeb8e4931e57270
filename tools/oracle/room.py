"""Room: the memory that this machine leaves, against what the closed formula says that a config needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tools.oracle.opinion import MOST_CHANCE, Opinion
from tools.targets.target import MemoryNeed

__all__ = ["LEAST_FREE", "Room"]

LEAST_FREE = 0.05
"""Share of the memory that a config must leave free for a burst; the verifier `feasibility.memory` asks for as much and
refuses a launch otherwise."""

FORMULA_ERROR = 0.025
"""Scale of the formula's error, as a share of the memory: it counts neither fragments nor what else runs. At 5 % free
the chance is 0.88, at 10 % 0.98."""


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of the device that serves, in bytes."""

    memory_bytes: int
    allowed_bytes: float
    "What a config may need at most."

    @classmethod
    def of(cls, memory_bytes: int, baseline_need_bytes: int = 0) -> Room:
        """With LEAST_FREE left free; a baseline that runs with less left may be equalled."""
        return cls(memory_bytes, max(memory_bytes * (1 - LEAST_FREE), baseline_need_bytes))

    def opinion(self, need: MemoryNeed) -> Opinion:
        """Whether it fits when it loads, when it sizes its cache and meets its largest step, and in a burst."""
        loaded, total = need.weights_bytes + need.overhead_bytes, need.total_bytes
        have = f"{_gib(self.memory_bytes)} GiB"
        if loaded > self.memory_bytes:
            return Opinion(0.0, "oom", f"out of memory at load: weights and overhead need {_gib(loaded)} of {have}")
        if total > self.memory_bytes:
            return Opinion(
                0.0,
                "oom",
                f"out of memory once the cache is laid out: {_gib(total)} of {have} are needed, the KV cache "
                f"{_gib(need.kv_cache_bytes)}, the largest step {_gib(need.activation_bytes)}",
            )
        free = 1 - total / self.memory_bytes
        if total > self.allowed_bytes:
            return Opinion(
                0.0, "oom", f"out of memory in a burst: {_gib(total)} of {have} are needed, {free:.1%} stays free"
            )
        return Opinion(
            min(1 / (1 + math.exp(-free / FORMULA_ERROR)), MOST_CHANCE),
            "oom",
            f"needs {_gib(total)} of {have} by the closed formula, {free:.0%} stays free",
        )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.2f}"
