"""Samples: the latencies behind a distribution, as `tools.measure.summary` counts them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tools.measure import latency
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord

__all__ = ["FAMILIES", "FAMILY_NAMES", "Samples", "samples_of", "ttft_ms"]

FAMILIES = ("ttft", "itl", "tpot", "e2el")
FAMILY_NAMES = {
    "ttft": "time to first token",
    "itl": "gap between tokens",
    "tpot": "time per output token",
    "e2el": "end-to-end latency",
    "task": "time to the last token of a conversation",
}


@dataclass(frozen=True, slots=True)
class Samples:
    """In the order in which their requests were due."""

    values_ms: list[float]
    "The ttft and e2el of a failed request are infinite."
    sizes: list[int]
    "How many of them each request gave."

    @property
    def ascending(self) -> list[float]:
        return sorted(self.values_ms)

    @property
    def finite(self) -> list[float]:
        return [value for value in self.values_ms if math.isfinite(value)]


def samples_of(measurement: Measurement, family: str) -> Samples:
    """All samples of `family`.

    Raises:
        KeyError: not one of FAMILIES.
    """
    of_each = {"ttft": _ttft_s, "itl": latency.itl_s, "tpot": _tpot_s, "e2el": _e2el_s}[family]
    each = [of_each(record) for record in sorted(measurement.records, key=lambda record: record.scheduled_s)]
    return Samples([1000 * value for values in each for value in values], [len(values) for values in each])


def ttft_ms(record: RequestRecord) -> float:
    return 1000 * _ttft_s(record)[0]


def _ttft_s(record: RequestRecord) -> tuple[float, ...]:
    found = latency.ttft_s(record)
    return (math.inf if found is None else found,)


def _e2el_s(record: RequestRecord) -> tuple[float, ...]:
    found = latency.e2el_s(record)
    return (math.inf if found is None else found,)


def _tpot_s(record: RequestRecord) -> tuple[float, ...]:
    found = latency.tpot_s(record)
    return () if found is None else (found,)
