"""The llm proposer runs the same job through the real client, against a scripted server that misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from autotune.harness import Budget, Options, Silent, resume, start
from autotune.harness.prepare import LlmOptions
from autotune.report import read_facts
from autotune.report_card.scenario import Scenario
from autotune.report_card.stage import laboratory_of, set_up
from autotune.verify import verify_run
from tests.agents.scripted_openai import Reply, ScriptedOpenAI, reply
from tests.autotune.conftest import git
from tools.ledger import Ledger

SEATS = {"action": {"kind": "propose", "patch": {"max_num_seqs": 32}, "hypothesis": "+900 % <b>guaranteed</b> | `rm`"}}
POOR = {
    "max_num_seqs": 1,
    "max_num_batched_tokens": 256,
    "enable_prefix_caching": False,
    "num_threads": 1,
    "kv_cache_tokens": 16384,
}
FORBIDDEN = {"action": {"kind": "propose", "patch": {"max_queue_len": 1}, "hypothesis": "shed the slow ones"}}
FINISH = {"action": {"kind": "finish", "reason": "seats were the fault"}}


def test_an_llm_that_also_misbehaves_ends_at_a_verified_config(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    deployment = make_repo()
    script = [
        Reply(500),  # the client retries
        reply("{not json"),  # repaired
        Reply(200, body=json.dumps({"choices": []})),  # repaired
        reply(SEATS),
        reply(FORBIDDEN),  # refused by the schema's own bounds, repaired
        reply(FINISH),
    ]
    with ScriptedOpenAI(*script, then=reply(FINISH)) as server:
        llm = LlmOptions(server.base_url, "scripted")
        outcome = start(deployment, tmp_path / "runs", Options("llm", llm, Budget(wall_s=600, trials=4)), Silent())
        asked = len(server.requests)
    assert (outcome.exit_code, outcome.decision) == (0, "tuned"), outcome.sentence
    assert asked == 6

    facts = read_facts(outcome.run)
    changed = {c.knob: c.new for c in facts.changes}  # its own, or what the search found from there
    assert changed.keys() <= {"max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching"}
    assert changed["max_num_seqs"] >= 8
    assert facts.llm_tokens > 0
    assert verify_run(outcome.run).problems == ()
    message = git(deployment.parent, "log", "-1", "--format=%B", "autotune/tiny-chat/interactive-latency")
    assert "guaranteed" not in message
    page = outcome.run.path / "report.html"
    from autotune.report import write

    write(outcome.run)
    assert (
        "<b>guaranteed" not in page.read_text() and "<b>guaranteed" not in (outcome.run.path / "report.md").read_text()
    )


def test_an_llm_that_is_broken_for_good_leaves_the_job_to_the_search(tmp_path: Path) -> None:
    """On a replay: what is measured isn't the question here."""
    scenario = Scenario(id="x01", about="", start=POOR, slo={"ttft_ms": {"p95": 20000}}, right="improve")
    deployment, laboratory = set_up(scenario, tmp_path / "repository"), laboratory_of(scenario, seed=7)
    with ScriptedOpenAI(then=reply("I would rather chat.")) as server:
        llm = LlmOptions(server.base_url, "scripted")
        options = Options("llm", llm, Budget(wall_s=600, trials=2), commit=False)
        outcome = start(deployment, tmp_path / "runs", options, Silent(), laboratory=laboratory, clock=laboratory.clock)
        asked = len(server.requests)
    assert outcome.exit_code in (0, 2, 3)
    assert asked == 3  # one answer and two repairs, then never again
    ledger = Ledger.read(outcome.run.ledger)
    assert len([e for e in ledger.of_kind("trial") if e.data["role"] == "search"]) == 2
    assert git(deployment.parent, "branch", "--list") == "* main"


def test_a_run_that_was_killed_after_a_decision_owes_the_search_what_it_owed(tmp_path: Path) -> None:
    """The model wants to stop at once, and the search has its trials first, whether the run was killed or not."""

    def killed(boundary: str, key: str) -> None:
        if (boundary, key) == ("recorded", "action:1"):
            raise KeyboardInterrupt

    scenario = Scenario(id="x01", about="", start=POOR, slo={"ttft_ms": {"p95": 20000}}, right="improve")
    deployment, laboratory = set_up(scenario, tmp_path / "repository"), laboratory_of(scenario, seed=7)
    with ScriptedOpenAI(then=reply(FINISH)) as server:
        options = Options("llm", LlmOptions(server.base_url, "scripted"), Budget(wall_s=600, trials=2), commit=False)
        first = start(
            deployment, tmp_path / "runs", options, Silent(), killed, laboratory=laboratory, clock=laboratory.clock
        )
        assert first.decision == "stopped"
        resume(first.run, Silent(), laboratory=laboratory, clock=laboratory.clock)
    ledger = Ledger.read(first.run.ledger)
    assert len([e for e in ledger.of_kind("trial") if e.data["role"] == "search"]) == 2
