"""One comparison: contenders sized, the client measured, rounds of fresh launches in a balanced order."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.asked_load import AskedLoad, judged_by
from autotune.compare.comparison import Comparison
from autotune.compare.contender import Contender
from autotune.compare.journal import Journal
from autotune.compare.order import round_order
from autotune.compare.trial import CompareTrial
from autotune.console import RunProgress, duration
from tools.errors import UserError
from tools.measure.calibrate import derive_seed
from tools.measure.floor import Floor
from tools.measure.self_calibration import measure_floor
from tools.measure.workload import Workload
from tools.trial import run_trial

__all__ = ["Rounds", "run_compare"]

_MOST_FAILURES = 2
"In a row: who can't be launched so often isn't launched again."


@dataclass(frozen=True, slots=True)
class Rounds:
    """How much is measured."""

    rounds: int
    budget_s: float | None = None
    "Wall clock of this sitting; a trial that is expected to end later isn't begun. None: as long as it takes."
    seed: int | None = None
    "The first round's; the workload's own by default."


@dataclass
class _Sitting:
    """Trials so far, and the time that this sitting takes."""

    contenders: Sequence[Contender]
    load: AskedLoad
    asked: Rounds
    floor: Floor | None
    journal: Journal
    progress: RunProgress
    folder: Path
    trials: list[CompareTrial] = field(default_factory=list)
    ended_early: str = ""
    _took_s: dict[str, list[float]] = field(default_factory=dict)
    _started_s: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Until all is measured, the budget is spent or the user ends it."""
        try:
            for number, contender in self._to_go():
                left_s = None if self.asked.budget_s is None else self.asked.budget_s - self._spent_s
                if left_s is not None and left_s < (self._expected_s(contender) or 0.0):
                    self.ended_early = self._out_of_budget()
                    return
                where = f"round {number + 1} of {self.asked.rounds}: {contender.name}"
                self.progress.phase("compare", where, self._left_s())
                self._keep(self._trial(contender, number))
        except KeyboardInterrupt:
            self.ended_early = "interrupted"

    def _out_of_budget(self) -> str:
        again = "with --out the same command would go on" if self.journal.path is None else "the same command goes on"
        return f"the budget of {duration(self.asked.budget_s or 0.0)} doesn't hold another trial; {again}"

    def _to_go(self) -> Iterator[tuple[int, Contender]]:
        """What is still to be launched, in its order; looked up anew after every trial."""
        for number in range(self.asked.rounds):
            for place in round_order(len(self.contenders), number):
                contender = self.contenders[place]
                done = any(t.contender == contender.name and t.round == number for t in self.trials)
                if not done and not self._given_up(contender):
                    yield number, contender

    def _given_up(self, contender: Contender) -> bool:
        own = [trial for trial in self.trials if trial.contender == contender.name]
        last = own[-_MOST_FAILURES:]
        return any(trial.hopeless for trial in own) or (
            len(last) == _MOST_FAILURES and all(trial.failure is not None for trial in last)
        )

    def _trial(self, contender: Contender, number: int) -> CompareTrial:
        workload = workload_of(self.load, self.asked.seed, number)
        started_s = time.monotonic()
        result = run_trial(
            contender.target,
            contender.config,
            workload,
            log=self.folder / f"{self.contenders.index(contender)}-{number}.log",
            ready_timeout_s=contender.file.deployment.ready_timeout_s,
            on_progress=self.progress.requests,
            draining=True,
        )
        if result.measurement is not None and result.measurement.cut_short:
            raise KeyboardInterrupt
        self._took_s.setdefault(contender.name, []).append(time.monotonic() - started_s)
        return CompareTrial.of(contender.name, number, workload, self.load.slo, self.floor, result)

    def _keep(self, trial: CompareTrial) -> None:
        self.trials.append(trial)
        self.journal.append(trial.to_json())
        if trial.failure is not None:
            self.progress.note(f"{trial.contender}: {trial.failure['kind']}: {trial.failure['message']}")
        elif not trial.counts:
            self.progress.note(f"{trial.contender}: INVALID: {trial.doubts[0]}")

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._started_s

    def _expected_s(self, contender: Contender) -> float | None:
        """Of a trial: as its own took, else as others'; None before any."""
        own = self._took_s.get(contender.name) or [took for each in self._took_s.values() for took in each]
        return fmean(own) if own else None

    def _left_s(self) -> float | None:
        expected = [self._expected_s(contender) for _, contender in self._to_go()]
        told = [seconds for seconds in expected if seconds is not None]
        return sum(told) if told else None


def run_compare(
    contenders: Sequence[Contender],
    load: AskedLoad,
    asked: Rounds,
    out: Path | None,
    with_floor: bool,
    progress: RunProgress,
) -> Comparison:
    """Measure all `contenders` under `load`; what `out` holds of the same comparison isn't measured again.

    Raises:
        UserError: the file can't be used.
    """
    journal = Journal(out, _compared(contenders, load, asked.seed))
    found = [_read(row, load, asked.seed, out) for row in journal.found]
    if found:
        progress.note(f"{out}: {len(found)} trials of an earlier sitting count")
    floor = None
    if with_floor:
        progress.phase("self-calibration", "the client against a mock server", 3.0)
        floor = measure_floor()
        progress.note(f"client's floor: {floor}")
    with tempfile.TemporaryDirectory() as folder:
        sitting = _Sitting(contenders, load, asked, floor, journal, progress, Path(folder), found)
        try:
            sitting.run()
        finally:
            for contender in contenders:
                contender.target.restore()
    return Comparison(
        entries=tuple(contender.entry for contender in contenders),
        trials=tuple(trial for trial in sitting.trials if trial.round < asked.rounds),
        rounds=asked.rounds,
        judged_by=judged_by(load),
        workload=_described(load),
        ended_early=sitting.ended_early,
    )


def workload_of(load: AskedLoad, seed: int | None, number: int) -> Workload:
    """The requests of a round, alike for all contenders. Of a workload that holds the very requests, those each time:
    every launch is fresh."""
    if load.fixed is not None:
        return load.fixed
    first = load.spec.seed if seed is None else seed
    return load.workload(seed if number == 0 else derive_seed(first, f"round {number}"))


def _compared(contenders: Sequence[Contender], load: AskedLoad, seed: int | None) -> Mapping[str, Any]:
    return {
        "contenders": [contender.entry.to_json() for contender in contenders],
        "workload": load.fixed.digest if load.fixed is not None else load.spec.digest,
        "seed": seed,
        "slo": load.slo.model_dump(mode="json"),
    }


def _read(row: Mapping[str, Any], load: AskedLoad, seed: int | None, out: Path | None) -> CompareTrial:
    try:
        workload = workload_of(load, seed, row["round"])
        return CompareTrial.from_json(row, workload, load.slo)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"--out {out}: expected a trial in each line, found {type(error).__name__}: {error}") from error


def _described(load: AskedLoad) -> str:
    spec = load.spec
    return f"{spec.requests} {spec.workload_class} requests, {spec.arrivals.kind} arrivals"
