"""LoadResult: what driving a workload gave, and whether the client itself was fit to measure it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.measure.records import RequestRecord

__all__ = ["ClientHealth", "LoadResult"]


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """A slow client looks like a slow server: what the client did to its own measurement."""

    send_lag_p99_ms: float
    "99 % of the requests were sent no later than this after they were due."
    cpu_share: float
    "CPU time of the client's thread / wall time; near 1, one core is the limit and not the server."

    @classmethod
    def of(cls, records: Sequence[RequestRecord], *, cpu_s: float, wall_s: float) -> ClientHealth:
        lags_s = sorted(record.sent_s - record.scheduled_s for record in records)
        p99_s = lags_s[math.ceil(0.99 * len(lags_s)) - 1] if lags_s else 0.0
        return cls(send_lag_p99_ms=p99_s * 1000, cpu_share=cpu_s / wall_s if wall_s > 0 else 0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClientHealth:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One load, raw. `records` are in the order of the requests' indices."""

    started_at: float
    "Unix seconds of the moment that all times in the records count from."
    window_s: float
    "From that moment until the last request ended."
    records: tuple[RequestRecord, ...]
    client: ClientHealth
    extras: tuple[str, ...]
    "The extensions of the API that were in force (see Dialect)."
