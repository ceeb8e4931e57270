"""Doubt: one reason not to take a measurement at its word; Case: what the questions are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo
from tools.measure.summary import summarise
from tools.measure.workload import Workload

__all__ = ["Case", "Doubt"]

_EVEN_KINDS = ("poisson", "constant", "gamma", "closed")
_MOST_UNEVEN = 1.5


@dataclass(frozen=True, slots=True)
class Doubt:
    """One doubt. A sentence says what was found, what it means for the numbers, and what to do."""

    name: str
    invalid: bool
    "True: the numbers aren't the server's and may not be used. False: read them with this in mind."
    sentence: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    "The numbers that the sentence rests on, by name with unit."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{'INVALID ' if self.invalid else ''}{self.name}: {self.sentence}"


@dataclass(frozen=True)
class Case:
    """A measurement and what is known besides; what isn't known is None, and no question guesses it."""

    measurement: Measurement
    workload: Workload | None = None
    floor: Floor | None = None
    slo: Slo | None = None

    @cached_property
    def records(self) -> tuple[RequestRecord, ...]:
        """In the order in which they were due."""
        return tuple(sorted(self.measurement.records, key=lambda record: record.scheduled_s))

    @cached_property
    def ok(self) -> tuple[RequestRecord, ...]:
        """The completed ones, in the same order."""
        return tuple(record for record in self.records if record.outcome == "ok")

    @cached_property
    def series(self) -> tuple[RequestRecord, ...]:
        """Those due while conversations still started, in the same order: after that the load runs dry."""
        last_s = max((record.scheduled_s for record in self.records if record.turn == 0), default=0.0)
        return tuple(record for record in self.records if record.scheduled_s <= last_s)

    @cached_property
    def summary(self) -> dict[str, float]:
        return summarise(self.measurement, self.slo)

    @cached_property
    def even_load(self) -> bool:
        """Whether the load was meant to be the same all the time, so that a change in latency is the server's.

        By the workload's arrivals; without one, whether both halves of the requests were due in about the same time.
        """
        if self.workload is not None:
            arrivals = self.workload.spec.arrivals
            return arrivals.kind in _EVEN_KINDS or (arrivals.kind == "renewal" and arrivals.season is None)
        due_s = [record.scheduled_s for record in self.series]
        if len(due_s) < 4 or due_s[-1] - due_s[0] < self.measurement.window_s / 4:
            return False
        middle_s = due_s[len(due_s) // 2]
        first_s, second_s = middle_s - due_s[0], due_s[-1] - middle_s
        return min(first_s, second_s) > 0 and max(first_s, second_s) < _MOST_UNEVEN * min(first_s, second_s)
