"""Reading: what one file of another tool says, as our own measurement where it has requests, and in its own words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tools.measure.load import ClientHealth
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.slo import Slo
from tools.measure.summary import summarise

__all__ = ["UNKNOWN_SEED", "ForeignSummary", "Reading", "family", "foreign_measurement", "without_stamps"]

UNKNOWN_SEED = -1
"""No seed is negative: the seed of a measurement whose file doesn't tell it."""


@dataclass(frozen=True, slots=True)
class ForeignSummary:
    """The numbers that the tool itself printed, under our flat names and in our units (ms, s, tokens/s)."""

    metrics: Mapping[str, float]
    notes: Mapping[str, str] = field(default_factory=dict)
    "Metric or family (`itl`, `request_throughput`) to how the tool's definition differs from ours; absent: it doesn't."

    @classmethod
    def of(cls, metrics: Mapping[str, float], notes: Mapping[str, str]) -> ForeignSummary:
        """`metrics` with those of `notes` that speak of one of them."""
        told = metrics.keys() | {family(name) for name in metrics}
        numbers = {name: float(value) for name, value in metrics.items()}
        return cls(numbers, {name: note for name, note in notes.items() if name in told})


@dataclass(frozen=True, slots=True)
class Reading:
    """One file read."""

    tool: str
    "vllm, guidellm, aiperf, inference-perf or autotune."
    version: str
    "Of the tool; empty where the file doesn't tell."
    model: str
    source: str
    "The file's name."
    measurement: Measurement | None
    "Every request as a record of ours; None where the file has only aggregates."
    theirs: ForeignSummary | None
    "None where the file has only requests."
    lacks: frozenset[str] = frozenset()
    "Metrics and families that the records can't tell, though arithmetic would yield a number."
    notes: tuple[str, ...] = ()
    "What was assumed and what was left out, as sentences."

    def tells(self, metric: str) -> bool:
        """Whether the records hold what `metric` (a flat name) is made of."""
        return self.measurement is not None and not {metric, family(metric)} & self.lacks

    def ours(self, slo: Slo | None = None) -> dict[str, float]:
        """The summary by our definitions (`tools.measure.summary`), without what the file can't tell.

        Empty where the file has only aggregates: those are in `theirs`, under the tool's definitions.
        """
        if self.measurement is None:
            return {}
        return {name: value for name, value in summarise(self.measurement, slo).items() if self.tells(name)}

    def to_json(self, slo: Slo | None = None) -> dict[str, Any]:
        """Both summaries side by side, each under the definitions that made it."""
        return {
            "tool": self.tool,
            "tool_version": self.version,
            "model": self.model,
            "source": self.source,
            "ours": self.ours(slo),
            "theirs": dict(self.theirs.metrics) if self.theirs else {},
            "definitions": dict(self.theirs.notes) if self.theirs else {},
            "lacks": sorted(self.lacks),
            "notes": list(self.notes),
        }


def family(metric: str) -> str:
    """`itl` of `p95_itl_ms`; a name without a statistic gives something that is no family."""
    return metric.removesuffix("_ms").split("_", 1)[-1]


def without_stamps(records: Sequence[RequestRecord]) -> frozenset[str]:
    """What can't be told where an answer has no times of its tokens, as one that wasn't streamed: every latency.

    Such an answer would count as one that never came.
    """
    if all(record.token_times_s for record in records if record.outcome == "ok"):
        return frozenset()
    gaps = {"tpot", "itl", "itl_tok", "max_itl_ms", "tokens_per_chunk_mean"}
    return frozenset(gaps | {"ttft", "ttft_from_send", "e2el", "e2el_from_send", "slo_attainment", "request_goodput"})


def foreign_measurement(
    records: Sequence[RequestRecord],
    *,
    started_at: float = math.nan,
    due_known: bool,
    offered: int | None = None,
    window_s: float = 0.0,
) -> Measurement:
    """`records` of another tool as a Measurement: in the order of their sends, times counted from the first of all.

    The file knows no digest and no seed (empty, UNKNOWN_SEED), nothing of the client's health (NaN) and, where
    `started_at` is NaN, not when it was. The window closes with the last end; it opens when the first request was due
    (sent, where that is all that's known), or `window_s` before its close where the tool says that the run began
    earlier.
    """
    ascending = sorted(records, key=lambda record: (record.scheduled_s, record.sent_s))
    origin = min((record.scheduled_s for record in ascending), default=0.0)
    origin = min(origin, max((record.end_s for record in ascending), default=0.0) - window_s)
    moved = tuple(_moved(record, index, -origin) for index, record in enumerate(ascending))
    client = ClientHealth.of(moved, cpu_s=math.nan, wall_s=1.0)
    return Measurement(
        workload_digest="",
        spec_digest="",
        seed=UNKNOWN_SEED,
        config_digest="",
        offered=len(moved) if offered is None else offered,
        started_at=started_at,
        window_s=max((record.end_s for record in moved), default=0.0),
        records=moved,
        client=client if due_known else replace(client, send_lag_p99_ms=math.nan),
    )


def _moved(record: RequestRecord, index: int, by_s: float) -> RequestRecord:
    return replace(
        record,
        index=index,
        scheduled_s=record.scheduled_s + by_s,
        sent_s=record.sent_s + by_s,
        end_s=record.end_s + by_s,
        first_chunk_s=None if record.first_chunk_s is None else record.first_chunk_s + by_s,
        token_times_s=tuple(time + by_s for time in record.token_times_s),
    )
