"""What an engine never tells can't be asked of it; what it tells and withholds is no PASS."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verifiers.conftest import Confirmation
from tests.verifiers.retold import BY_ID, asked, measured, serving, without
from tools.targets.spec import CommandSpec, ExternalSpec, ServerSpec
from verifiers import Evidence

OWN = CommandSpec(
    kind="command", command="serve {model} {port} {name} {knobs}", knobs=(), reports="command_line", reset="none"
)
UNCOUNTED = {
    "answers.counted": ("requests", "generation_tokens", "prompt_tokens"),
    "clock.agrees": ("e2e_seconds_sum", "e2e_seconds_count", "ttft_seconds_sum", "ttft_seconds_count"),
    "service.failures": ("rejected", "aborted"),
    "cache.prefix_hits": ("prefix_hit_tokens", "prefix_queries_tokens"),
}


def of_target(evidence: Evidence, target: CommandSpec | ExternalSpec | ServerSpec) -> Evidence:
    return replace(evidence, deployment=evidence.deployment.model_copy(update={"target": target}))


@pytest.mark.parametrize("rule", UNCOUNTED)
def test_a_counter_that_the_engine_never_exports_is_told_and_one_that_is_missing_is_no_pass(
    confirmation: Confirmation, rule: str
) -> None:
    evidence = confirmation()
    for counter in UNCOUNTED[rule]:
        evidence = without(evidence, counter)
    assert asked(rule, evidence).status == "ERROR"
    assert asked(rule, of_target(evidence, OWN)).status == "PASS"


def test_a_command_line_alone_is_believed_where_its_owner_says_so(confirmation: Confirmation) -> None:
    evidence = confirmation()
    first = measured(evidence).identity_before
    assert first is not None
    every = tuple(first.config)
    silent = evidence
    for index in range(len(evidence.trials)):
        silent = serving(silent, index, before={"unreported": every}, after={"unreported": every})
    assert asked("identity.sources", silent).status == "ERROR"
    believed = asked("identity.sources", of_target(silent, OWN))
    assert believed.status == "PASS" and "command line alone" in believed.sentence


def test_without_physics_nothing_is_too_fast_and_without_a_survey_nothing_is_known(confirmation: Confirmation) -> None:
    evidence = replace(confirmation(), floors_ms={}, physics={})
    for rule in ("physics.floor", "physics.ceiling", "delivery.gaps"):
        assert asked(rule, evidence).status == "ERROR"
        unknown = replace(evidence, physics={"unknown": "the model is somebody else's"})
        assert asked(rule, unknown).status == "PASS", rule


def test_a_server_of_somebody_else_is_one_by_its_own_word(confirmation: Confirmation) -> None:
    theirs = of_target(confirmation(), ExternalSpec(kind="external", url="http://127.0.0.1:8000"))
    unseen = serving(theirs, before={"process_started_at": 0.0})
    assert asked("identity.process", unseen).status == "PASS"
    restarted = serving(unseen, after={"started_at": 1.0})
    assert asked("identity.process", restarted).status == "FAIL"
    first = measured(theirs).identity_before
    assert first is not None
    other = next(i for i, trial in enumerate(theirs.trials) if trial.config != theirs.trials[0].config)
    same = {"started_at": first.started_at, "pid": first.pid}
    assert asked("identity.process", serving(theirs, other, before=same, after=same)).status == "FAIL"


def test_every_rule_that_is_eased_here_exists() -> None:
    assert UNCOUNTED.keys() <= BY_ID.keys()
