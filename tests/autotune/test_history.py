"""What a run makes of its own trials: one launch refuses no candidate for what launches of the baseline differ by."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.harness.history import History
from tests.verifiers.conftest import DEPLOYMENT
from tools.ledger import Entry
from tools.targets.knobs import Config

BASELINE = Config({"max_num_seqs": 2})


def told(*trials: tuple[str, dict[str, float], str], guarded: str = "output_throughput") -> History:
    """The history of (role, summary, kind of failure), with one guardrail of 10 %."""
    deployment = {**DEPLOYMENT, "guardrails": [{"metric": guarded, "max_regression": 0.1}]}
    made: list[tuple[str, dict[str, Any]]] = [("run.started", {"deployment": deployment})]
    for number, (role, summary, failure) in enumerate(trials):
        config = dict(BASELINE.values) if role == "baseline" else {"max_num_seqs": 4}
        if role == "again":  # a search trial of the baseline
            role, config = "search", dict(BASELINE.values)
        proposal = {"patch": {}, "hypothesis": "", "source": "search"}
        made.append(
            (
                "trial",
                {
                    "id": f"t{number}",
                    "role": role,
                    "proposal": proposal,
                    "config": config,
                    "seed": number,
                    "wall_s": 1.0,
                    "summary": summary,
                    "failure": {"kind": failure, "message": "", "log_tail": ""} if failure else None,
                },
            )
        )
    entries = (Entry.seal(seq, 1.0, kind, None, data, "0" * 64) for seq, (kind, data) in enumerate(made))
    return History.read(entries, BASELINE)


def summed(metric: str, value: float) -> dict[str, float]:
    return {"p95_ttft_ms": 300.0, metric: value}


@pytest.mark.parametrize(
    ("baseline", "candidate", "missed"),
    [((100.0, 101.0), 85.0, True), ((100.0, 101.0), 95.0, False), ((80.0, 120.0), 85.0, False)],
)
def test_a_guardrail_is_missed_beyond_its_margin_and_the_noise(
    baseline: tuple[float, float], candidate: float, missed: bool
) -> None:
    launches = [("baseline", summed("output_throughput", value), "") for value in baseline]
    history = told(*launches, ("search", summed("output_throughput", candidate), ""))
    assert bool(history.candidates[0].guardrail_misses) is missed


@pytest.mark.parametrize(("baseline", "candidate", "missed"), [(0.0, 0.0, False), (0.0, 3.0, True), (3.0, 0.0, False)])
def test_a_guardrail_may_stand_at_zero(baseline: float, candidate: float, missed: bool) -> None:
    launches = [("baseline", summed("timed_out", baseline), "")] * 2
    history = told(*launches, ("search", summed("timed_out", candidate), ""), guarded="timed_out")
    assert bool(history.candidates[0].guardrail_misses) is missed


def test_what_the_harness_spoilt_says_nothing_of_its_config() -> None:
    history = told(("search", {}, "port_taken"), ("search", {}, "crash"))
    assert [trial.spoilt for trial in history.candidates] == [True, False]


def test_the_baseline_measured_again_tells_the_noise_and_is_no_candidate() -> None:
    launches = [("baseline", {"p95_ttft_ms": value}, "") for value in (300.0, 303.0)]
    history = told(*launches, ("again", {"p95_ttft_ms": 250.0}, ""), ("search", {"p95_ttft_ms": 260.0}, ""))
    assert [trial.id for trial in history.candidates] == ["t3"]
    assert history.incumbent is not None and history.incumbent.id == "t3"
    assert [trial.id for trial in history.baselines] == ["t0", "t1", "t2"]
    assert history.noise == pytest.approx(53 / (853 / 3))
