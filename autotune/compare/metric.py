"""CompareMetric: what contenders are compared by, in the order in which it is told."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.compare.trial import READY_S, RESIDENT_BYTES
from autotune.pages.number import number
from tools.measure.summary import lower_is_better

__all__ = ["CompareMetric", "compared_by"]

_WORDS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2el": "E2E",
    "output_throughput": "output tokens/s",
    "request_goodput": "good requests/s",
    READY_S: "start, s",
    RESIDENT_BYTES: "resident, MiB",
}
_ALWAYS = (
    *(f"{statistic}_{family}_ms" for family in ("ttft", "tpot", "e2el") for statistic in ("p50", "p95")),
    "output_throughput",
    "request_goodput",
    READY_S,
    RESIDENT_BYTES,
)


@dataclass(frozen=True, slots=True)
class CompareMetric:
    """One metric; `name` is that of a summary, or one of READY_S and RESIDENT_BYTES."""

    name: str
    lower_is_better: bool

    @property
    def words(self) -> str:
        """`p95 TTFT, ms`."""
        statistic, _, rest = self.name.partition("_")
        family = rest.removesuffix("_ms")
        return f"{statistic} {_WORDS[family]}, ms" if family in _WORDS else _WORDS.get(self.name, self.name)

    def shown(self, value: float) -> str:
        return number(value / 2**20 if self.name == RESIDENT_BYTES else value)


def compared_by(first: str) -> tuple[CompareMetric, ...]:
    """`first`, what the work is judged by, then all others."""
    names = dict.fromkeys((first, *_ALWAYS))
    return tuple(
        CompareMetric(name, True if name in (READY_S, RESIDENT_BYTES) else lower_is_better(name)) for name in names
    )
