"""Series: trials of one subject, a fixed number or as many as it takes to resolve an effect within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from autotune.asked_load import AskedLoad
from autotune.bench.result import BenchTrial
from autotune.bench.show import resolved
from autotune.bench.subject import Subject
from tools.errors import UserError
from tools.measure.calibrate import derive_seed
from tools.measure.floor import Floor
from tools.measure.progress import ProgressCallback
from tools.measure.resolve import LEAST_PILOT, Plan, plan

__all__ = ["Series"]

Phase = Callable[[str, str, float | None], None]
Note = Callable[[str], None]


@dataclass
class Series:
    """Runs trials one after the other; each has a seed of its own, derived from the first."""

    subject: Subject
    load: AskedLoad
    metric: str
    seed: int | None = None
    floor: Floor | None = None
    phase: Phase = lambda name, detail, left: None
    note: Note = lambda text: None
    on_progress: ProgressCallback | None = None
    trials: list[BenchTrial] = field(default_factory=list)
    _spent_s: float = 0.0

    def run(self, trials: int) -> None:
        """Run until there are so many. A load that the user cut short is the last.

        Raises:
            UserError: the subject can't be measured.
        """
        while len(self.trials) < trials and not self._cut_short():
            left_s = self._mean_s() * (trials - len(self.trials)) if self.trials else None
            of = f", trial {len(self.trials) + 1} of {trials}" if trials > 1 else ""
            self.phase("bench", f"{self.subject.name}{of}", left_s)
            self._trial()

    def resolve(self, effect: float, budget_s: float | None) -> Plan:
        """Run as many trials as it takes until two such sides could be told apart at `effect`; the plan is told after
        the pilot and renewed after each trial.

        Where the budget can't do it, that is said after the pilot, and no further trial is run.

        Raises:
            UserError: the subject can't be measured, or its trials don't tell the metric.
        """
        self.run(LEAST_PILOT)
        told = ""
        while True:
            # A budget is for this side; the other one would cost the same.
            left_s = None if budget_s is None else 2 * (budget_s - self._spent_s)
            found = plan(self._values(), effect=effect, seconds_per_trial=self._mean_s(), budget_s=left_s)
            if self._cut_short() or not found.feasible or len(self.trials) >= found.trials_per_side:
                return found
            sentence = resolved(self.metric, len(self.trials), found)
            if sentence != told:
                told = sentence
                self.note(f"plan: {told}")
            self.run(len(self.trials) + 1)

    def _trial(self) -> None:
        number = len(self.trials)
        first = self.load.spec.seed if self.seed is None else self.seed
        workload = self.load.workload(
            (self.seed if self.seed is not None else None) if number == 0 else derive_seed(first, f"trial {number}")
        )
        started_s = time.monotonic()
        measurement = self.subject.measure(workload, self.on_progress)
        self._spent_s += time.monotonic() - started_s
        self.trials.append(BenchTrial(workload, measurement, self.load.slo, self.floor))

    def _cut_short(self) -> bool:
        return bool(self.trials) and self.trials[-1].measurement.offered < len(self.trials[-1].workload.requests)

    def _mean_s(self) -> float:
        return self._spent_s / len(self.trials)

    def _values(self) -> list[float]:
        values = [trial.summary.get(self.metric) for trial in self.trials]
        found = [value for value in values if value]
        if len(found) < len(values):
            raise UserError(
                f"--resolve: expected every trial to tell {self.metric}, {len(values) - len(found)} of {len(values)} "
                "can't: too few requests for that percentile, or too many failed; choose another --metric, or more "
                "--requests"
            )
        return found
