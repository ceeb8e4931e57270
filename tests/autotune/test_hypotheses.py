"""Hypotheses and beliefs through the real graph on a replay: judged by what was measured, told to who proposed them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from agents.actions import Action, Finish, Inspect, Profile, Propose, Weigh, WeighedRegion
from agents.proposer import Turn
from agents.usage import Usage
from agents.view import View
from autotune.harness import Budget, Options, Silent, start
from autotune.harness.beliefs import beliefs, may_weigh
from autotune.harness.rundir import RunDir
from autotune.report import read_facts
from autotune.report.write import markdown
from autotune.report_card.scenario import Scenario
from autotune.report_card.stage import laboratory_of, set_up
from tools.ledger import Ledger

POOR = {
    "max_num_seqs": 1,
    "max_num_batched_tokens": 256,
    "enable_prefix_caching": False,
    "num_threads": 1,
    "kv_cache_tokens": 16384,
}
TOO_SURE = WeighedRegion(knob="max_num_seqs", low=16, high=64, weight=0.9, why="the load")


@dataclass
class Scripted:
    """Says what is written, and keeps what it was shown."""

    script: list[Action]
    seen: list[View] = field(default_factory=list)
    name: str = "scripted"

    def turn(self, view: View) -> Turn:
        self.seen.append(view)
        usage = Usage(prompt_tokens=1000, completion_tokens=50, cached_tokens=800, calls=1, requests=2, usd=0.25)
        return Turn(self.script[len(self.seen) - 1], usage)


@dataclass(frozen=True)
class Played:
    run: RunDir
    seen: tuple[View, ...]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("hypotheses")
    scenario = Scenario(id="x01", about="", start=POOR, slo={"ttft_ms": {"p95": 20000}}, right="improve")
    deployment, laboratory = set_up(scenario, folder / "repository"), laboratory_of(scenario, seed=7)
    proposer = Scripted(
        [
            Profile(subject="time"),
            Weigh(regions=(TOO_SURE,)),
            Propose(patch={"max_num_seqs": 32}, hypothesis="more seats", expect={"output_throughput": "higher"}),
            Propose(
                patch={"max_num_seqs": 32, "enable_prefix_caching": True},
                hypothesis="a cache slows it down",
                expect={"p95_ttft_ms": "higher"},
            ),
            Inspect(trial="t3", subject="metrics"),
            Finish(reason="enough"),
        ]
    )
    options = Options("llm", None, Budget(wall_s=6000, trials=4), commit=False)
    outcome = start(
        deployment, folder / "runs", options, Silent(), laboratory=laboratory, clock=laboratory.clock, proposer=proposer
    )
    return Played(outcome.run, tuple(proposer.seen))


def test_each_is_judged_against_what_it_stands_on(played: Played) -> None:
    judged = {one.trial: one for one in read_facts(played.run).judged}
    assert judged["t3"].status == "confirmed", judged
    assert "against b" in judged["t3"].found
    assert judged["t4"].status == "refuted", judged
    assert judged["t4"].found.endswith("against t3"), "it keeps all of t3, and asks what the cache adds"


def test_the_proposer_is_told_and_its_record_is_in_the_report(played: Played) -> None:
    told = played.seen[-1].hypotheses
    assert [(one.trial, one.status) for one in told] == [("t3", "confirmed"), ("t4", "refuted")]
    facts = read_facts(played.run)
    hits = facts.hit_rates["playbook"]
    assert (hits.confirmed, hits.refuted, hits.undecided, hits.rate) == (1, 1, 0, 0.5)
    assert json.loads(json.dumps(facts.to_json()))["hit_rates"]["playbook"]["rate"] == 0.5
    assert "| playbook | 1 | 1 | 0 | 50 % |" in markdown(facts)


def test_what_the_answers_cost_is_in_the_report_by_kind(played: Played) -> None:
    facts = read_facts(played.run)
    assert facts.llm["cached_tokens"] == 6 * 800
    assert facts.llm["usd"] == pytest.approx(1.5)
    assert "6 questions in 12 requests; 6000 prompt tokens (4800 cached)" in markdown(facts)


def test_a_belief_stands_in_the_ledger_and_is_shown(played: Played) -> None:
    ledger = Ledger.read(played.run.ledger)
    shown = played.seen[2].regions
    assert [(region.knob, region.low, region.high, region.weight) for region in shown] == [
        ("max_num_seqs", 16, 64, 0.9)
    ]
    assert [view.may_weigh for view in played.seen] == [True, True, False, True, True, True]
    assert beliefs(ledger) == (TOO_SURE,)
    assert may_weigh(ledger)


def test_the_view_profiles_the_run_and_holds_no_seed(played: Played) -> None:
    view = played.seen[0]
    assert {"machine", "roofline", "calibration", "time"} == set(view.profile)
    assert view.profile["time"]["baseline_waiting_for_first_token_ms"] >= 0
    assert not [name for figures in view.profile.values() for name in figures if "seed" in name or "digest" in name]


def test_each_limit_stops_the_llm_by_itself(played: Played) -> None:
    ledger = Ledger.read(played.run.ledger)
    assert Budget().allowance(ledger).spent is None
    for budget, name in (
        (Budget(llm_tokens=6300), "LLM tokens"),
        (Budget(llm_calls=12), "LLM requests"),
        (Budget(llm_usd=1.5), "LLM money"),
    ):
        assert name in str(budget.allowance(ledger).spent)
