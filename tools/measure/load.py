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
    """CPU time of the client's thread / wall time; near 1, one core is the limit and not the server. Of several workers
    it is the busiest one's."""
    workers: int = 1
    "Processes that shared the load."
    cores_used: float | None = None
    "CPU time of all of them / wall time; None where it isn't known."

    @classmethod
    def of(cls, records: Sequence[RequestRecord], *, cpu_s: float, wall_s: float) -> ClientHealth:
        share = cpu_s / wall_s if wall_s > 0 else 0.0
        return cls(_lag_p99_ms(records), share, cores_used=share)

    @classmethod
    def together(cls, records: Sequence[RequestRecord], workers: Sequence[ClientHealth]) -> ClientHealth:
        """Of all `workers` and the `records` that they brought home."""
        shares = [worker.cpu_share for worker in workers]
        return cls(_lag_p99_ms(records), max(shares), len(workers), sum(shares))

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
    cut_short: bool = False
    "Its user stopped it: requests that weren't due yet were never sent."

    @classmethod
    def of(
        cls,
        started_at: float,
        records: Sequence[RequestRecord],
        client: ClientHealth,
        extras: tuple[str, ...],
        *,
        cut_short: bool = False,
    ) -> LoadResult:
        return cls(
            started_at=started_at,
            window_s=max(record.end_s for record in records),
            records=tuple(sorted(records, key=lambda record: record.index)),
            client=client,
            extras=extras,
            cut_short=cut_short,
        )


def _lag_p99_ms(records: Sequence[RequestRecord]) -> float:
    lags_s = sorted(record.sent_s - record.scheduled_s for record in records)
    return lags_s[math.ceil(0.99 * len(lags_s)) - 1] * 1000 if lags_s else 0.0
