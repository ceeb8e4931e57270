"""CompareTrial: one launch of one contender in one round, measured or failed, as it stands in the file of trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools.measure.doubts import Doubt, doubts
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.slo import Slo
from tools.measure.summary import summarise
from tools.measure.workload import Workload
from tools.trial import TrialResult

__all__ = ["READY_S", "RESIDENT_BYTES", "CompareTrial"]

READY_S = "ready_s"
RESIDENT_BYTES = "resident_bytes"
"What a trial tells besides a summary's metrics: seconds from launch to ready, and the most that was seen resident."

_FOR_GOOD = ("bad_config", "model_missing")
"Failures that another launch of the same config has again."


@dataclass(frozen=True)
class CompareTrial:
    """A measurement or a failure, never both."""

    contender: str
    round: int
    "From 0. All contenders are sent the same requests in a round."
    workload: Workload
    slo: Slo
    floor: Floor | None
    "The client's own, measured before."
    ready_s: float
    resident_bytes: float | None
    "The most that was seen before, in the middle of and after the load; None where the OS doesn't say."
    measurement: Measurement | None = None
    failure: Mapping[str, str] | None = None
    "kind, message and log_tail."

    @classmethod
    def of(
        cls, contender: str, number: int, workload: Workload, slo: Slo, floor: Floor | None, result: TrialResult
    ) -> CompareTrial:
        """What a launch yielded."""
        failed = result.failure
        return cls(
            contender,
            number,
            workload,
            slo,
            floor,
            result.ready_s,
            max(result.resources.values(), default=None),
            result.measurement,
            None if failed is None else {"kind": failed.kind, "message": failed.message, "log_tail": failed.log_tail},
        )

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        return () if self.measurement is None else doubts(self.measurement, self.workload, self.floor, self.slo)

    @property
    def counts(self) -> bool:
        """Whether its numbers are the server's."""
        return self.measurement is not None and not any(doubt.invalid for doubt in self.doubts)

    @property
    def hopeless(self) -> bool:
        """Whether another launch would fail alike."""
        return self.failure is not None and self.failure["kind"] in _FOR_GOOD

    @cached_property
    def values(self) -> dict[str, float]:
        """Every metric that it tells, READY_S and RESIDENT_BYTES among them."""
        if self.measurement is None:
            return {}
        found = summarise(self.measurement, self.slo) | {READY_S: self.ready_s}
        return found if self.resident_bytes is None else found | {RESIDENT_BYTES: self.resident_bytes}

    def tokens(self) -> tuple[float, float] | None:
        """Prompt and output tokens of an answered request, by the server's count, in the mean; None where it has none.

        What was cut into tokens is the same text in every server: another count is another tokeniser or template.
        """
        answered = [record for record in self.measurement.records if record.outcome == "ok"] if self.measurement else []
        counted = [(r.prompt_tokens, r.output_tokens) for r in answered if r.token_source != "chunks"]
        told = [(prompt, output) for prompt, output in counted if prompt is not None and output is not None]
        if not told or len(told) < len(answered):
            return None
        return sum(prompt for prompt, _ in told) / len(told), sum(output for _, output in told) / len(told)

    @property
    def longest_tokens(self) -> int:
        """Prompt and output of the longest request that was answered; 0 where that isn't told."""
        records = self.measurement.records if self.measurement else ()
        return max(
            (r.prompt_tokens + (r.output_tokens or 0) for r in records if r.prompt_tokens is not None), default=0
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; with the workload and the promise `from_json` gives back an equal trial."""
        return {
            "contender": self.contender,
            "round": self.round,
            "seed": self.workload.seed,
            "ready_s": self.ready_s,
            "resident_bytes": self.resident_bytes,
            "floor": None if self.floor is None else self.floor.to_json(),
            "failure": None if self.failure is None else dict(self.failure),
            "measurement": None if self.measurement is None else self.measurement.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], workload: Workload, slo: Slo) -> CompareTrial:
        """The trial that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        floor, raw = data["floor"], data["measurement"]
        return cls(
            data["contender"],
            data["round"],
            workload,
            slo,
            None if floor is None else Floor.from_json(floor),
            data["ready_s"],
            data["resident_bytes"],
            None if raw is None else Measurement.from_json(raw),
            data["failure"],
        )
