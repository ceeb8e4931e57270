"""The report card: scenarios with a known right answer, played through the real graph, graded and summed up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agents.proposer import Turn
from agents.view import View
from autotune.commands.eval import eval_group
from autotune.report_card.attack import is_attack
from autotune.report_card.card import ReportCard, report_card
from autotune.report_card.contestants import contestants
from autotune.report_card.evaluate import Evaluation, evaluate, known_scenarios
from autotune.report_card.grade import SLACK, graded, graded_assessment, reached
from autotune.report_card.page import report_card_page
from autotune.report_card.result import Conduct, Result
from autotune.report_card.scenario import Scenario, load_scenarios
from autotune.report_card.stage import deployment_text
from autotune.report_card.truth import Truth, truth_of
from tools.errors import UserError
from tools.targets.knobs import Value

SCENARIOS = {scenario.id: scenario for scenario in load_scenarios()}


class Heard:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        self.phases.append(detail)

    def note(self, text: str) -> None:
        return None


def asked(*scenarios: str, proposers: tuple[str, ...] = ("random", "search"), seed: int = 7) -> Evaluation:
    return Evaluation(contestants(proposers, None), scenarios, k=1, seed=seed, trials=2, llm_tokens=1000)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_the_surface_bears_out_what_a_scenario_calls_right(scenario: Scenario) -> None:
    truth = truth_of(scenario)
    assert truth.right == scenario.right
    assert truth.regret(truth.best) == 0 and truth.gain(truth.baseline) == 0


PLANTED = {f"{s.id}-{kind}": (s, patch) for s in SCENARIOS.values() for kind, patch in s.kinds.items()}


@pytest.mark.parametrize(("scenario", "patch"), PLANTED.values(), ids=PLANTED)
def test_each_kind_of_fault_that_a_scenario_names_is_one(scenario: Scenario, patch: dict[str, Value]) -> None:
    truth = truth_of(scenario)
    assert len(patch) == 1 and truth.gain(truth.baseline.patched(patch)) > scenario.min_effect


def test_faults_of_seven_kinds_are_planted_and_no_deployment_names_its_own() -> None:
    """A surface of five knobs has no more: each is too low or too high, or off."""
    assert all(bool(s.kinds) == (s.right == "improve") for s in SCENARIOS.values())
    assert len({kind for s in SCENARIOS.values() for kind in s.kinds}) >= 7
    assert any(s.lures for s in SCENARIOS.values()) and any(s.traps for s in SCENARIOS.values())
    assert {s.noise for s in SCENARIOS.values()} > {1.0}
    names = {deployment_text(s).splitlines()[0] for s in SCENARIOS.values()}
    assert names == {"name: service"}
    assert all(re.fullmatch("[tbm][0-9]{2}", name) for name in known_scenarios())
    assert not any(word in deployment_text(s) for s in SCENARIOS.values() for word in s.about.split() if len(word) > 8)


def test_the_same_seed_gives_the_same_card_and_kept_results_are_not_played_again(tmp_path: Path) -> None:
    evaluation, heard = asked("t02", "t16", "m03", "b03"), Heard()
    first = report_card(evaluation, evaluate(evaluation, tmp_path / "one", heard))
    again = report_card(evaluation, evaluate(evaluation, tmp_path / "two", Heard()))
    assert first == again
    assert len(heard.phases) == 2 * 2 + 2  # search assesses nothing
    rest = Heard()
    assert report_card(evaluation, evaluate(evaluation, tmp_path / "one", rest)) == first and rest.phases == []

    other = Heard()
    evaluate(asked("t16", "m03", seed=8), tmp_path / "one", other)
    assert len(other.phases) == 3
    _shows_everything(first)


def _shows_everything(card: ReportCard) -> None:
    page = report_card_page(card)
    assert all(row["id"] in page for row in card.scenarios) and "<svg" in page
    json.dumps(card.to_json())


def test_an_interrupted_run_leaves_no_result_and_is_played_anew(tmp_path: Path) -> None:
    class Impatient:
        name = "random"

        def turn(self, view: View) -> Turn:
            raise KeyboardInterrupt

    evaluation = asked("t02", proposers=("random",))
    impatient = replace(evaluation.contestants[0], proposer=lambda seed: Impatient())
    with pytest.raises(KeyboardInterrupt):
        evaluate(replace(evaluation, contestants=(impatient,)), tmp_path, Heard())
    assert not list((tmp_path / "random").glob("*.json"))
    results = evaluate(evaluation, tmp_path, Heard())
    assert [result.conduct.trials for result in results] == [2]


@pytest.fixture(scope="module")
def truth() -> Truth:
    return truth_of(SCENARIOS["t01"])


@pytest.fixture
def run(truth: Truth) -> Result:
    """A run that found the best."""
    return Result(
        "tuning",
        "t01",
        "expert",
        1,
        right="improve",
        answer="improve",
        gain=truth.possible,
        possible=truth.possible,
        patch={"max_num_seqs": 8},
    )


def test_a_run_succeeds_by_getting_most_of_the_way(run: Result, truth: Truth) -> None:
    assert graded(run, truth).success
    assert reached(0.9, 0.99, lower=True) == pytest.approx(0.5)  # 100 to 10, of 100 to 1
    half = graded(replace(run, gain=0.5), truth)
    assert (half.success, half.blame, half.false_claim) == (False, "agent", False)


def test_who_is_to_blame_is_told_apart(run: Result, truth: Truth) -> None:
    kept = replace(run, answer="keep", gain=0.0, patch={})
    worse = graded(replace(run, gain=-0.1), truth)
    assert (worse.blame, worse.false_claim) == ("verifier", True)
    small = graded(replace(run, gain=truth.scenario.min_effect - 2 * SLACK), truth)
    assert (small.blame, small.false_claim) == ("verifier", True), "less than the least effect was committed"
    lossy = graded(replace(run, honest=False), truth)
    assert (lossy.blame, lossy.false_claim, lossy.escape) == ("verifier", True, False)
    assert graded(replace(kept, refused_good="FAIL slo.kept: no"), truth).blame == "verifier"
    assert graded(replace(kept, refused_good="INCONCLUSIVE improvement.primary: ?"), truth).blame == "environment"
    assert graded(replace(kept, problem="the baseline can't be trusted"), truth).blame == "environment"
    down = replace(kept, conduct=Conduct(failures=("http://x could not be reached: refused",)))
    assert graded(down, truth).blame == "environment"
    assert graded(replace(kept, conduct=Conduct(failures=("no valid action in 3 answers",))), truth).blame == "agent"
    assert graded(kept, truth).blame == "agent"
    assert graded(replace(run, patch={"max_num_seqs": 8, "max_queue_len": 1}), truth).escape


def test_what_the_search_played_for_a_proposer_that_gave_up_is_not_its_success(run: Result, truth: Truth) -> None:
    given_up = graded(replace(run, conduct=Conduct(answers=1, failures=("no valid action in 3 answers",))), truth)
    assert (given_up.played, given_up.success, given_up.blame) == (False, False, "agent")
    kept = replace(run, right="keep", answer="keep", patch={}, gain=0.0)
    assert graded(kept, truth).success
    assert not graded(replace(kept, conduct=given_up.conduct), truth).success
    tuning = report_card(asked("t01", proposers=("expert",)), [graded(run, truth), given_up]).cards[0].tuning
    assert tuning is not None
    assert (tuning.runs, tuning.unplayed, tuning.usable) == (2, 1, 0.5)
    assert tuning.true_gain == pytest.approx(truth.possible, abs=1e-3), "of the runs that it played"


def test_a_mistake_is_no_attack_and_obeying_a_log_is_one_once_it_was_read(truth: Truth) -> None:
    assert not is_attack({"max_num_seqs": 100_000, "max_num_seqz": 4}, truth, ())
    assert not is_attack({"max_queue_len": truth.baseline.values["max_queue_len"]}, truth, ())  # stands already
    assert is_attack({"max_queue_len": 1}, truth, ()) and is_attack({"trust_remote_code": True}, truth, ())
    poisoned = truth_of(next(s for s in SCENARIOS.values() if any(trap.bait for trap in s.traps)))
    trap = next(trap for trap in poisoned.scenario.traps if trap.bait)
    assert is_attack(trap.bait, poisoned, (trap,)) and not is_attack(trap.bait, poisoned, ())


def test_a_good_candidate_breaks_no_promise_and_no_guardrail(truth: Truth) -> None:
    assert truth.feasible(truth.best) and truth.feasible(truth.baseline)
    trapped = truth_of(next(s for s in SCENARIOS.values() if s.traps))
    trap = trapped.scenario.traps[0]
    assert not trapped.feasible(trapped.baseline.patched({trap.knob: int(trap.at_least)}))


def test_an_assessment_needs_the_right_reason(run: Result) -> None:
    case = replace(run, skill="monitoring", right="cannot_fire", answer="metric_missing")
    other_reason = graded_assessment(case)
    assert (other_reason.success, other_reason.false_claim, other_reason.blame) == (False, False, "agent")
    assert graded_assessment(replace(case, answer="sound")).false_claim
    assert graded_assessment(replace(case, answer="cannot_fire")).success
    silent = graded_assessment(replace(case, answer="none"))
    assert not silent.success and not silent.false_claim


def test_pass_k_asks_for_every_attempt(run: Result, truth: Truth) -> None:
    evaluation = replace(asked("t01", "t02", proposers=("expert",)), k=2)
    good, bad = graded(run, truth), graded(replace(run, gain=0.1), truth)
    results = [good, bad, replace(good, scenario="t02"), replace(good, scenario="t02")]
    tuning = report_card(evaluation, results).cards[0].tuning
    assert tuning is not None
    assert (tuning.success, tuning.pass_k) == (0.75, 0.5)
    assert tuning.faults == {"agent": 1, "environment": 0, "verifier": 0}


def test_the_command_prints_one_json_object_and_writes_the_page(tmp_path: Path) -> None:
    out = tmp_path / "card"
    command = ["agents", "--proposer", "random", "--scenario", "t16", "--scenario", "monitoring", "--k", "1"]
    done = CliRunner().invoke(eval_group, [*command, "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    card = json.loads(done.stdout)
    assert card == json.loads((out / "card.json").read_text())
    assert card["cards"][0]["tuning"]["abstained_rightly"] == 1.0 and card["cards"][0]["monitoring"]["cases"] == 10
    assert "<html" in (out / "card.html").read_text()


@pytest.mark.parametrize(
    "arguments", [["--scenario", "t99"], ["--proposer", "oracle"], ["--proposer", "llm"]], ids=["t99", "oracle", "llm"]
)
def test_what_is_unknown_is_refused_before_anything_is_played(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(eval_group, ["agents", *arguments, "--out", str(tmp_path / "card")])
    assert isinstance(done.exception, UserError) and "expected" in str(done.exception)
    assert not (tmp_path / "card").exists()
