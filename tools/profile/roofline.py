"""Roofline: a machine's best read bandwidth and arithmetic. `probe.py` measures, `physics.py` says what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["Roofline"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """The best of many repeats; sustained rates are lower."""

    read_bytes_per_s: float
    flops_per_s_bf16: float
    flops_per_s_fp32: float
    device: str = "cpu"
    threads: int = 1

    @property
    def flops_per_s(self) -> float:
        """In the faster of the two formats."""
        return max(self.flops_per_s_bf16, self.flops_per_s_fp32)

    @property
    def ridge_flop_per_byte(self) -> float:
        """The ridge point: work with fewer FLOP per byte is limited by bandwidth, with more by arithmetic."""
        return self.flops_per_s / self.read_bytes_per_s

    def best(self, other: Roofline) -> Roofline:
        """Of both measurements of one machine the better rate of each kind: neither can have found too much."""
        return replace(
            self,
            read_bytes_per_s=max(self.read_bytes_per_s, other.read_bytes_per_s),
            flops_per_s_bf16=max(self.flops_per_s_bf16, other.flops_per_s_bf16),
            flops_per_s_fp32=max(self.flops_per_s_fp32, other.flops_per_s_fp32),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Roofline:
        """What `to_json` wrote.

        Raises:
            TypeError: not such data.
        """
        return cls(**data)
