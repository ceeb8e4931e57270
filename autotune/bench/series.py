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
from tools.measure.resolve import LEAST_PILOT, LEAST_TRIALS, Plan, plan

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
    ended_early: str = ""
    "Why there are fewer trials than were asked for; empty where there aren't."
    _spent_s: float = 0.0

    def run(self, trials: int) -> None:
        """Run until there are so many. Once there is one, what goes wrong later ends the series and isn't raised.

        Raises:
            UserError: the subject can't be measured.
            KeyboardInterrupt: the user ended it before anything was measured.
        """
        while len(self.trials) < trials and not self.ended_early:
            left_s = self._mean_s() * (trials - len(self.trials)) if self.trials else None
            of = f", trial {len(self.trials) + 1} of {trials}" if trials > 1 else ""
            self.phase("bench", f"{self.subject.name}{of}", left_s)
            try:
                self._trial()
            except (UserError, KeyboardInterrupt) as error:
                if not self.trials:
                    raise
                self.ended_early = str(error) or "interrupted"

    def resolve(self, effect: float, budget_s: float | None) -> Plan | None:
        """Run as many valid trials as it takes until two such sides could be told apart at `effect`; the plan is told
        after the pilot and renewed after each trial. An invalid trial counts for nothing.

        Where the budget can't do it, that is said as soon as it's known, and no further trial is run. None where no
        plan could be made; `ended_early` says why.

        Raises:
            UserError: the subject can't be measured, or its first trial doesn't tell the metric.
        """
        self.run(1)
        self._told(self.trials[0])
        if budget_s is not None and self._spent_s * LEAST_TRIALS > budget_s:
            self.ended_early = (
                f"the budget of {budget_s:.0f} s can't resolve anything: a trial takes {self._spent_s:.0f} s, and it "
                f"takes at least {LEAST_TRIALS} of them. Give more --budget, or a shorter load"
            )
        told = ""
        while not self.ended_early:
            values = [self._told(trial) for trial in self.trials if trial.valid]
            if len(self.trials) - len(values) > max(len(values), LEAST_PILOT):
                self.ended_early = f"{len(self.trials) - len(values)} of {len(self.trials)} trials were invalid"
            elif len(values) >= LEAST_PILOT:
                # A budget is for this side; the other one would cost the same.
                left_s = None if budget_s is None else 2 * (budget_s - self._spent_s)
                found = plan(values, effect=effect, seconds_per_trial=self._mean_s(), budget_s=left_s)
                if not found.feasible or len(values) >= found.trials_per_side:
                    return found
                sentence = resolved(self.metric, len(values), found)
                if sentence != told:
                    told = sentence
                    self.note(f"plan: {told}")
            self.run(len(self.trials) + 1)
        return None

    def _trial(self) -> None:
        number = len(self.trials)
        first = self.load.spec.seed if self.seed is None else self.seed
        workload = self.load.workload(self.seed if number == 0 else derive_seed(first, f"trial {number}"))
        started_s = time.monotonic()
        measurement = self.subject.measure(workload, self.on_progress)
        self._spent_s += time.monotonic() - started_s
        self.trials.append(BenchTrial(workload, measurement, self.load.slo, self.floor))
        if measurement.cut_short:
            self.ended_early = "interrupted"

    def _mean_s(self) -> float:
        return self._spent_s / len(self.trials)

    def _told(self, trial: BenchTrial) -> float:
        value = trial.summary.get(self.metric)
        if not value:
            found = "can't tell it" if value is None else "found 0"
            raise UserError(
                f"--resolve: expected every trial to tell {self.metric}, one {found}: too few requests for that "
                "percentile, or too many failed; choose another --metric, or more --requests"
            )
        return value
