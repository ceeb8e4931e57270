"""Rows `valid` and `optimal_left_alone`: whole runs through the real graph, on a replay.

Every run has a git repository of its own, a ledger, a confirmation of fresh launches and the gate; only the launches
are played. What a run left behind is judged by the surface's truth, not by what the run says of itself.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from agents.expert import Expert
from agents.playbook import load_playbook
from agents.proposer import Proposer
from agents.random_proposer import RandomProposer
from agents.search_proposer import SearchProposer
from autotune.report_card.contestants import PLAYBOOK
from autotune.report_card.result import Result
from autotune.report_card.scenario import Scenario, load_scenarios
from autotune.report_card.truth import truth_of
from autotune.report_card.tuning import play_tuning
from benchmarks.agents_countdown import counted
from benchmarks.table import Row

__all__ = ["PROPOSERS", "Played", "optimal_left_alone", "play", "valid"]

TRIALS = 8
"Of a run's exploration."
LLM_TOKENS = 40_000
SLACK = 0.02
"By which a true gain may fall short of nothing: the truth's loads aren't the run's."
LEAST_VALID_RUNS, OPTIMAL = 60, 20

PROPOSERS: dict[str, Callable[[int], Proposer]] = {
    "expert": lambda seed: Expert(load_playbook(PLAYBOOK)),
    "search": lambda seed: SearchProposer(),
    "random": RandomProposer,
}
"By name, made for a seed."

_ENDED = {"tuned", "unchanged", "refused", "inconclusive"}
"How a run ends that did its work; `error` and `stopped` left it undone."


@dataclass(frozen=True)
class Played:
    """A run, and the scenario that it ran in."""

    scenario: Scenario
    result: Result

    @property
    def committed(self) -> bool:
        return self.result.answer == "improve"

    @property
    def regression(self) -> bool:
        """Something was committed that fails, is worse than before, or says other things than the model."""
        if not self.committed:
            return False
        truth = truth_of(self.scenario)
        final = truth.baseline.patched(self.result.patch or {})
        return not truth.feasible(final) or not self.result.honest or self.result.gain < -SLACK

    @property
    def valid(self) -> bool:
        """It ended, and with a config that serves: one that passed the gate, or the baseline."""
        absurd = self.result.exit_code == 2 and truth_of(self.scenario).absurd  # refused at the start, as it should be
        return (self.result.decision in _ENDED or absurd) and not self.regression

    def told(self) -> str:
        result = self.result
        return f"{result.proposer} on {result.scenario}, seed {result.seed}: {result.sentence or result.problem}"


def play(scenario: Scenario, name: str, proposer: Proposer, seed: int, trials: int = TRIALS) -> Played:
    """One run of `scenario` in a folder that is gone afterwards. Its result bears the name `name`."""
    with tempfile.TemporaryDirectory() as folder:
        result = play_tuning(scenario, proposer, seed, Path(folder) / name, trials=trials, llm_tokens=LLM_TOKENS)
    return Played(scenario, result)


def valid(quick: bool) -> Row:
    """Every scenario of the report card, played by every proposer that needs no LLM."""
    scenarios = load_scenarios()[:2] if quick else load_scenarios()
    jobs = list(product(enumerate(scenarios), PROPOSERS))
    played = [play(scenario, name, PROPOSERS[name](seed), seed) for (seed, scenario), name in counted("valid", jobs)]
    good = sum(each.valid for each in played)
    return {
        "value": f"{good} of {len(played)} runs end with a valid config",
        "goal": f"all of >= {LEAST_VALID_RUNS}",
        "ok": None if quick else good == len(played) >= LEAST_VALID_RUNS,
        "decisions": dict(Counter(each.result.decision for each in played)),
        "not valid": [each.told() for each in played if not each.valid],
    }


def optimal_left_alone(quick: bool) -> Row:
    """Deployments that start at the best config of what may be changed in them, under the recorded noise."""
    scenarios = optimal_scenarios()[: 2 if quick else OPTIMAL]
    played = [
        play(scenario, "expert", PROPOSERS["expert"](seed), seed)
        for seed, scenario in counted("optimal_left_alone", list(enumerate(scenarios)))
    ]
    left = sum(each.valid and not each.committed for each in played)
    return {
        "value": f"{left} of {len(played)} left alone",
        "goal": f">= 95 % of {OPTIMAL}",
        "ok": None if quick else len(played) == OPTIMAL and left >= 0.95 * OPTIMAL,
        "decisions": dict(Counter(each.result.decision for each in played)),
        "changed": [each.told() for each in played if each.committed],
    }


def optimal_scenarios() -> Sequence[Scenario]:
    """Objectives and sets of managed knobs for which the config that the deployment starts from is the best there is.

    Those in which the truth knows a gain of the least effect after all, by other loads than the recorded one, are left
    out: they aren't optimal.
    """
    knobs = ("max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching", "num_threads", "kv_cache_tokens")
    managed: list[tuple[str, ...]] = [(), *(tuple(k for k in knobs if k != left_out) for left_out in knobs)]
    objectives = ("p95_ttft_ms", "mean_ttft_ms", "p95_e2el_ms", "mean_e2el_ms", "mean_tpot_ms", "output_throughput")
    candidates = (
        Scenario(id=f"o{number:02d}", about="", start="best", objective=objective, managed=names, right="keep")
        for number, (names, objective) in enumerate(product(managed, objectives))
    )
    return [scenario for scenario in candidates if truth_of(scenario).right == "keep"]
