"""Phase: one load of a calibration, as it was sent and as it was answered."""

from __future__ import annotations

from dataclasses import dataclass

from tools.measure.load import LoadResult
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo
from tools.measure.summary import summarise
from tools.measure.workload import Workload

__all__ = ["Phase"]


@dataclass(frozen=True, slots=True)
class Phase:
    """`probe` (one at a time), `burst` (all at once) or a `rate`."""

    name: str
    workload: Workload
    load: LoadResult
    rate_rps: float | None = None
    "Conversation starts per second; None for the probe and the burst."

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        return self.load.records

    @property
    def measurement(self) -> Measurement:
        return Measurement.of(self.workload, self.load, config_digest="")

    def summary(self, slo: Slo | None = None) -> dict[str, float]:
        """Flat metrics of this load."""
        return summarise(self.measurement, slo)
