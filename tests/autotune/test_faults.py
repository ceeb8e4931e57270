"""Faults of the harness say nothing of a config: a spoilt launch is repeated once, and a spoilt run judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.fixed import Fixed
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, start
from autotune.harness.attempts import earlier_attempts
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import Scenario
from autotune.report_card.stage import laboratory_of, set_up
from tools.ledger import Ledger, LedgerView
from tools.trial import Failure, TrialResult

SCENARIO = Scenario(
    id="x01",
    about="",
    start={
        "max_num_seqs": 1,
        "max_num_batched_tokens": 256,
        "enable_prefix_caching": False,
        "num_threads": 1,
        "kv_cache_tokens": 16384,
    },
    slo={"ttft_ms": {"p95": 20000}},
    noise=0,
    right="improve",
)
PATCH = {"max_num_seqs": 16, "num_threads": 2}


class Unlucky:
    """A laboratory's trials; the port of those of `spoilt` is taken, so many times each."""

    def __init__(self, measure: Callable[..., TrialResult], spoilt: tuple[str, ...], times: int) -> None:
        self._measure, self._left = measure, dict.fromkeys(spoilt, times)

    def __call__(self, config: Any, workload: Any, *, log: Path, **rest: Any) -> TrialResult:
        if self._left.get(log.stem, 0) > 0:
            self._left[log.stem] -= 1
            return TrialResult(config, workload.seed, failure=Failure("port_taken", "port 8000 is taken", ""))
        return self._measure(config, workload, log=log, **rest)


def played(
    root: Path, monkeypatch: pytest.MonkeyPatch, *spoilt: str, times: int = 1, trials: int = 1
) -> tuple[Outcome, LedgerView]:
    laboratory: ReplayLaboratory = laboratory_of(SCENARIO, 7)
    monkeypatch.setattr(laboratory, "trial", Unlucky(laboratory.trial, spoilt, times))
    deployment = set_up(SCENARIO, root / "repository")
    run = RunDir(root / "runs" / "service-7")
    run.logs.mkdir(parents=True)
    outcome = start(
        deployment,
        root / "runs",
        Options(budget=Budget(wall_s=600, trials=trials)),
        Silent(),
        laboratory=laboratory,
        proposer=Fixed(PATCH, "more seats, and both cores"),
        run=run,
        clock=laboratory.clock,
    )
    return outcome, Ledger.read(run.ledger)


def test_a_spoilt_launch_is_told_and_launched_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, ledger = played(tmp_path, monkeypatch, "b2", "t1", "c2")
    assert outcome.decision == "tuned", outcome.sentence
    assert [entry.data["trial"] for entry in ledger.of_kind("fault")] == ["b2", "t1", "c2"]
    begun = [entry.data["id"] for entry in ledger.of_kind("trial.started")]
    assert {name: begun.count(name) for name in ("b1", "b2", "t1", "c2")} == {"b1": 1, "b2": 2, "t1": 2, "c2": 2}
    assert not any(entry.data["failure"] for entry in ledger.of_kind("trial"))
    assert list((outcome.run.path / "measured").iterdir()) == [], "what stands in the ledger isn't kept twice"


def test_a_confirmation_that_stays_spoilt_judges_nothing_and_was_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, ledger = played(tmp_path, monkeypatch, "c2", times=2)
    assert (outcome.decision, outcome.exit_code) == ("error", 1), outcome.sentence
    plan = ledger.of_kind("plan")[0]
    later = RunDir.create(tmp_path / "runs", "service")
    digest = plan.data["plan"]["baseline_digest"]
    assert earlier_attempts(later, "service", digest, frozenset(PATCH), plan.time + 60) == ()


def test_a_budget_that_allows_no_trial_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, ledger = played(tmp_path, monkeypatch, trials=0)
    assert (outcome.decision, outcome.exit_code) == ("stopped", 4)
    assert "resume with --trials 1 or more" in outcome.sentence
    assert not ledger.of_kind("finalist"), "nothing was found to be without a better config"
