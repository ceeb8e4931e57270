"""Floor: what the client itself adds to every measurement, and how much it can take. A sceptic asks for it first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Floor"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The client measured against a mock server whose true times are known."""

    send_lag_p99_ms: float
    "99 % of requests were sent no later than this after they were due."
    stamp_jitter_p99_ms: float
    "99 % of chunks were stamped no later than this after the usual time they take from the server's write."
    ttft_overhead_ms: float
    "Median of what the client's time to first token, from the send, is longer than the server's own."
    max_chunks_per_s: float
    "Chunks that the client can read and parse in a second, all workers together."
    workers: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Floor:
        return cls(**data)

    def __str__(self) -> str:
        several = f" with {self.workers} workers" if self.workers > 1 else ""
        return (
            f"send lag p99 {self.send_lag_p99_ms:.2f} ms, stamp jitter p99 {self.stamp_jitter_p99_ms:.2f} ms, "
            f"TTFT + {self.ttft_overhead_ms:.2f} ms, up to {self.max_chunks_per_s:,.0f} chunks/s{several}"
        )
