"""Counting: how a metric of any engine is said in the one vocabulary of counters."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from prometheus_client.samples import Sample

__all__ = ["COUNTERS", "CounterName", "Metric"]

CounterName = Literal[
    "requests",
    "prompt_tokens",
    "generation_tokens",
    "prefix_queries_tokens",
    "prefix_hit_tokens",
    "preemptions",
    "aborted",
    "rejected",
    "e2e_seconds_sum",
    "e2e_seconds_count",
    "ttft_seconds_sum",
    "ttft_seconds_count",
]
"""Of `tools.targets.target.Counters`."""

COUNTERS: tuple[str, ...] = get_args(CounterName)

_METRIC = re.compile(
    r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"
    r"(?:\{(?P<label>[A-Za-z_]\w*)(?P<sign>!?=)\"?(?P<value>[^\"{}]*)\"?\})?"
)


@dataclass(frozen=True, slots=True)
class Metric:
    """`engine_prompt_tokens_total`, `request_success_total{finished_reason="abort"}`, `...{finished_reason!="abort"}`.

    Series that differ in other labels are summed.
    """

    name: str
    label: str = ""
    value: str = ""
    excluded: bool = False
    "All series but those with that value."

    @classmethod
    def parse(cls, text: str) -> Metric:
        """
        Raises:
            ValueError: `text` is no metric with at most one condition on a label.
        """
        if not (found := _METRIC.fullmatch(text)):
            raise ValueError(f'expected a metric as name_total or name_total{{label="value"}}, found {text!r}')
        return cls(found["name"], found["label"] or "", found["value"] or "", found["sign"] == "!=")

    def total(self, samples: Sequence[Sample]) -> float | None:
        """The sum over its series; None where there is none, or one isn't a number."""
        values = [sample.value for sample in samples if self._is(sample)]
        return sum(values) if values and all(map(math.isfinite, values)) else None

    def _is(self, sample: Sample) -> bool:
        if sample.name != self.name:
            return False
        return not self.label or (sample.labels.get(self.label) == self.value) is not self.excluded
