"""A series of trials: invalid ones count for nothing, and what goes wrong later throws nothing away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autotune.asked_load import AskedLoad
from autotune.bench import Bench, Series
from tests.tools.simulated_queues import simulated_load
from tools.errors import UserError
from tools.measure import ClientHealth, Measurement, Workload, WorkloadSpec
from tools.measure.progress import ProgressCallback

LOAD = AskedLoad(
    WorkloadSpec.model_validate(
        {"requests": 5, "prompt_tokens": 12, "output_tokens": 11, "arrivals": {"kind": "poisson", "rate_rps": 1}}
    )
)
METRIC = "p50_e2el_ms"


class Recorded:
    """A subject whose trials were measured elsewhere."""

    name = "recorded"

    def __init__(self, *trials: Measurement | BaseException) -> None:
        self._trials: Iterator[Measurement | BaseException] = iter(trials)
        self.seeds: list[int] = []

    def measure(self, workload: Workload, on_progress: ProgressCallback | None) -> Measurement:
        self.seeds.append(workload.seed)
        trial = next(self._trials)
        if isinstance(trial, BaseException):
            raise trial
        return trial


def trial(seed: int, *, slower: float = 1.0, valid: bool = True) -> Measurement:
    found = simulated_load(120, seed=seed, slowness=lambda share: slower)
    return found if valid else replace(found, client=ClientHealth(0.1, 0.97))


def bench_of(series: Series) -> Bench:
    return Bench(series.subject.name, METRIC, tuple(series.trials), ended_early=series.ended_early)


def test_an_invalid_trial_counts_for_nothing() -> None:
    series = Series(Recorded(trial(1), trial(2, slower=9.0, valid=False), trial(3)), LOAD, METRIC)
    series.run(3)
    bench = bench_of(series)
    assert not bench.valid and len(bench.counted) == 2
    assert bench.replicated[METRIC].trials == 2
    assert bench.replicated[METRIC].mean < 2 * min(one.summary[METRIC] for one in bench.counted)
    assert bench.shown in bench.counted


def test_a_plan_is_made_of_valid_trials_alone() -> None:
    # Were the slow, invalid ones noise, 5 trials a side couldn't resolve a half.
    trials = [trial(seed, slower=9.0 if seed % 3 == 0 else 1.0, valid=bool(seed % 3)) for seed in range(1, 30)]
    subject = Recorded(*trials)
    series = Series(subject, LOAD, METRIC)
    plan = series.resolve(0.5, None)
    assert plan is not None and plan.feasible and plan.trials_per_side == 5
    assert sum(one.valid for one in series.trials) == 5 and len(series.trials) == 7
    assert len(set(subject.seeds)) == 7


def test_a_client_that_is_always_the_limit_ends_the_series() -> None:
    series = Series(Recorded(*(trial(seed, valid=False) for seed in range(20))), LOAD, METRIC)
    assert series.resolve(0.5, None) is None
    assert "4 of 4 trials were invalid" in series.ended_early


@pytest.mark.parametrize(
    ("late", "why"), [(UserError("the server is gone"), "the server is gone"), (KeyboardInterrupt(), "interrupted")]
)
def test_what_goes_wrong_later_keeps_what_was_measured(late: BaseException, why: str) -> None:
    series = Series(Recorded(trial(1), trial(2), late), LOAD, METRIC)
    series.run(5)
    assert (len(series.trials), series.ended_early) == (2, why)
    first = Series(Recorded(late), LOAD, METRIC)
    with pytest.raises(type(late)):
        first.run(5)


def test_a_trial_that_was_cut_short_is_the_last_and_counts_only_alone() -> None:
    series = Series(Recorded(trial(1), replace(trial(2), cut_short=True), trial(3)), LOAD, METRIC)
    series.run(3)
    bench = bench_of(series)
    assert bench.interrupted and len(bench.trials) == 2 and len(bench.counted) == 1
    alone = Series(Recorded(replace(trial(2), cut_short=True)), LOAD, METRIC)
    alone.run(3)
    assert len(bench_of(alone).counted) == 1


def test_a_metric_that_isnt_told_is_found_out_after_one_trial() -> None:
    subject = Recorded(trial(1), trial(2))
    with pytest.raises(UserError, match="expected every trial to tell p99_ttft_ms"):
        Series(subject, LOAD, "p99_ttft_ms").resolve(0.05, None)
    assert len(subject.seeds) == 1
