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
        proposal = {"patch": {}, "hypothesis": "", "source": "search"}
        made.append(
            (
                "trial",
                {
                    "id": f"t{number}",
                    "role": role,
                    "proposal": proposal,
                    "config": dict(BASELINE.values),
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
