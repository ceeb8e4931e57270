"""Slo: the promise, per metric and percentile, and who missed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tools.measure.latency import e2el_s, itl_s, tpot_s, ttft_s
from tools.measure.records import RequestRecord

__all__ = ["Bounds", "Slo", "SloMiss", "Statistic", "Stutter"]

Statistic = Literal["mean", "p50", "p90", "p95", "p99"]
"""From the weakest promise to the strictest."""

_STRICTNESS: tuple[Statistic, ...] = ("mean", "p50", "p90", "p95", "p99")

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bounds = Annotated[dict[Statistic, Milliseconds], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class SloMiss:
    """One bound that wasn't met. `found_ms` is None where the measurement can't tell, which is never a pass.

    Of `stutter_share` both are shares rather than milliseconds.
    """

    metric: str
    bound_ms: float
    found_ms: float | None

    def __str__(self) -> str:
        found = "not measurable" if self.found_ms is None else f"{self.found_ms:.6g}"
        return f"{self.metric}: promised {self.bound_ms:g}, found {found}"


class Stutter(BaseModel):
    """Readers notice a pause, not a mean: at most `max_share` of the sequences may have a gap over `gap_ms`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gap_ms: Milliseconds
    max_share: float = Field(ge=0, lt=1, allow_inf_nan=False)

    def stutters(self, record: RequestRecord) -> bool:
        """Whether one sequence had a gap over the bound. A failed one counts as if it had."""
        return record.outcome == "failed" or max(itl_s(record), default=0.0) * 1000 > self.gap_ms


class Slo(BaseModel):
    """Bounds in milliseconds per statistic, e.g. `ttft_ms: {p95: 500}`. `ttft` and `e2el` count from when a request
    was due. `stutter: {gap_ms: 200, max_share: 0.05}` bounds the share of sequences with a pause."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ttft_ms: Bounds | None = None
    tpot_ms: Bounds | None = None
    itl_ms: Bounds | None = None
    e2el_ms: Bounds | None = None
    stutter: Stutter | None = None

    def bounds(self) -> dict[str, float]:
        """Every bound under its metric's flat name, e.g. `{"p95_ttft_ms": 500.0, "stutter_share": 0.05}`."""
        found = {
            f"{statistic}_{metric}": bounds[statistic]
            for metric, bounds in self._metrics().items()
            for statistic in _STRICTNESS
            if statistic in bounds
        }
        return found if self.stutter is None else {**found, "stutter_share": self.stutter.max_share}

    def misses(self, summary: Mapping[str, float]) -> tuple[SloMiss, ...]:
        """The bounds that `summary` (of `summarise`) doesn't meet; a metric that it lacks is missed."""
        found = ((metric, bound, summary.get(metric)) for metric, bound in self.bounds().items())
        return tuple(SloMiss(*miss) for miss in found if miss[2] is None or not miss[2] <= miss[1])

    def request_good(self, record: RequestRecord) -> bool:
        """Whether one request was served as promised: completed, and within every bound that applies to a request.

        That is, per metric, the bound of the strictest statistic named (p99 before p95 ... before mean): a median may
        be missed by half of all requests without breaking the promise. `itl_ms` holds for the longest gap: no stall.
        A request of one token has no `tpot` and no gap, and meets those. Under a stutter promise a good request has no
        gap over it.
        """
        if record.outcome != "ok" or (self.stutter is not None and self.stutter.stutters(record)):
            return False
        latencies_s = {
            "ttft_ms": ttft_s(record),
            "tpot_ms": tpot_s(record) or 0.0,
            "itl_ms": max(itl_s(record), default=0.0),
            "e2el_ms": e2el_s(record),
        }
        for metric, bounds in self._metrics().items():
            latency = latencies_s[metric]
            bound = bounds[max(bounds, key=_STRICTNESS.index)]
            if latency is None or latency * 1000 > bound:
                return False
        return True

    def _metrics(self) -> dict[str, dict[Statistic, float]]:
        every = {"ttft_ms": self.ttft_ms, "tpot_ms": self.tpot_ms, "itl_ms": self.itl_ms, "e2el_ms": self.e2el_ms}
        return {metric: bounds for metric, bounds in every.items() if bounds}
