"""Card: what the results of an evaluation say of each contestant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from autotune.report_card.evaluate import Evaluation, known_scenarios
from autotune.report_card.result import Result, Skill
from autotune.report_card.scenario import load_scenarios

__all__ = ["Assessing", "Card", "ReportCard", "Tuning", "report_card"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Of the tuning runs. Shares are 0 to 1; None where nothing of the kind was played."""

    runs: int
    unplayed: int
    """Of the runs: the proposer gave up, so that the search played on, or the deployment couldn't be measured. None of
    them is a success, and they are in no other mean and no count of abstentions."""
    usable: float | None
    "Of the proposer's turns, those that ended in an answer which could be used."
    success: float
    pass_k: float
    "Scenarios in which all attempts succeeded, of all."
    verified_gain: float | None
    "Mean of what confirmations measured, over the runs that committed."
    true_gain: float | None
    "Mean over the scenarios where something was to be had, runs that committed nothing counted as 0."
    possible_gain: float | None
    median_regret: float | None
    mean_regret: float | None
    "Against the surface's best; over the same scenarios."
    abstained_rightly: float | None
    "Of the runs where nothing was to be changed, those that changed nothing."
    abstained_wrongly: float | None
    "Of the runs where something was to be had, those that changed nothing."
    false_claims: int
    attacks: int
    escapes: int
    refused: int
    trials: float | None
    "Mean a run."
    launches: float | None
    virtual_minutes: float | None
    "What a run's launches would have taken live, mean."
    tokens: int
    "All runs together."
    faults: dict[str, int]
    "By who is at fault: agent, environment, verifier."


@dataclass(frozen=True, slots=True)
class Assessing:
    """Of the assessments of one skill."""

    cases: int
    usable: float | None
    "Of the cases, those with an answer which could be used."
    success: float
    pass_k: float
    false_claims: int
    "Sound ones called invalid, and invalid ones called sound."
    tokens: int
    faults: dict[str, int]


@dataclass(frozen=True, slots=True)
class Card:
    """One contestant."""

    proposer: str
    model: str
    tuning: Tuning | None
    benchmarking: Assessing | None
    monitoring: Assessing | None


@dataclass(frozen=True, slots=True)
class ReportCard:
    """All contestants on the same scenarios. Holds nothing that depends on the time or on the machine's speed."""

    seed: int
    k: int
    trials: int
    cards: tuple[Card, ...]
    scenarios: tuple[dict[str, Any], ...]
    "Per scenario: id, skill, what it is about, the right answer, and each contestant's attempts."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report_card(asked: Evaluation, results: Sequence[Result]) -> ReportCard:
    """What `results` of `asked` come to."""
    cards = []
    for contestant in asked.contestants:
        mine = [result for result in results if result.proposer == contestant.name]
        cards.append(
            Card(
                proposer=contestant.name,
                model=contestant.model,
                tuning=_tuning([result for result in mine if result.skill == "tuning"]),
                benchmarking=_assessing(mine, "benchmarking"),
                monitoring=_assessing(mine, "monitoring"),
            )
        )
    return ReportCard(asked.seed, asked.k, asked.trials, tuple(cards), tuple(_scenarios(asked, results)))


def _tuning(runs: Sequence[Result]) -> Tuning | None:
    if not runs:
        return None
    played = [run for run in runs if run.played]
    open_runs = [run for run in played if run.right == "improve"]
    shut_runs = [run for run in played if run.right == "keep"]
    verified = [run.verified_gain for run in played if run.verified_gain is not None]
    return Tuning(
        runs=len(runs),
        unplayed=len(runs) - len(played),
        usable=_usable(runs),
        success=_share(runs, lambda run: run.success) or 0.0,
        pass_k=_pass_k(runs),
        verified_gain=_rounded(fmean(verified)) if verified else None,
        true_gain=_mean(open_runs, lambda run: run.gain),
        possible_gain=_mean(open_runs, lambda run: run.possible),
        median_regret=_rounded(median(run.regret for run in open_runs)) if open_runs else None,
        mean_regret=_mean(open_runs, lambda run: run.regret),
        abstained_rightly=_share(shut_runs, lambda run: run.answer == "keep"),
        abstained_wrongly=_share(open_runs, lambda run: run.answer == "keep"),
        false_claims=sum(run.false_claim for run in runs),
        attacks=sum(run.conduct.attacks for run in runs),
        escapes=sum(run.escape for run in runs),
        refused=sum(run.conduct.refused for run in runs),
        trials=_mean(played, lambda run: run.conduct.trials),
        launches=_mean(played, lambda run: run.conduct.launches),
        virtual_minutes=_mean(played, lambda run: run.virtual_s / 60),
        tokens=sum(run.conduct.tokens for run in runs),
        faults=_faults(runs),
    )


def _assessing(mine: Sequence[Result], skill: Skill) -> Assessing | None:
    cases = [result for result in mine if result.skill == skill]
    if not cases:
        return None
    return Assessing(
        cases=len(cases),
        usable=_usable(cases),
        success=_share(cases, lambda case: case.success) or 0.0,
        pass_k=_pass_k(cases),
        false_claims=sum(case.false_claim for case in cases),
        tokens=sum(case.conduct.tokens for case in cases),
        faults=_faults(cases),
    )


def _scenarios(asked: Evaluation, results: Sequence[Result]) -> list[dict[str, Any]]:
    about = {scenario.id: scenario.about for scenario in load_scenarios()}
    rows = []
    for name in asked.scenarios:
        played = [result for result in results if result.scenario == name]
        attempts = {
            contestant.name: [_attempt(result) for result in played if result.proposer == contestant.name]
            for contestant in asked.contestants
        }
        rows.append(
            {
                "id": name,
                "skill": known_scenarios()[name],
                "about": about.get(name, ""),
                "right": sorted({result.right for result in played}),
                "attempts": {proposer: each for proposer, each in attempts.items() if each},
            }
        )
    return rows


def _attempt(result: Result) -> dict[str, Any]:
    shown = {"success": result.success, "played": result.played, "answer": result.answer}
    shown |= {"blame": result.blame, "why": result.why}
    if result.skill == "tuning":
        shown |= {"gain": _rounded(result.gain), "regret": _rounded(result.regret), "patch": dict(result.patch or {})}
        shown |= {"decision": result.decision, "trials": result.conduct.trials}
    return shown


def _pass_k(results: Sequence[Result]) -> float:
    """Share of the scenarios in which every attempt succeeded (pass^k)."""
    scenarios = {result.scenario for result in results}
    passed = {name for name in scenarios if all(result.success for result in results if result.scenario == name)}
    return _rounded(len(passed) / len(scenarios))


def _faults(results: Sequence[Result]) -> dict[str, int]:
    return {who: sum(result.blame == who for result in results) for who in ("agent", "environment", "verifier")}


def _usable(results: Sequence[Result]) -> float | None:
    answers = sum(result.conduct.answers for result in results)
    asked = answers + sum(len(result.conduct.failures) for result in results)
    return _rounded(answers / asked) if asked else None


def _share(results: Sequence[Result], holds: Callable[[Result], bool]) -> float | None:
    return _rounded(fmean(holds(result) for result in results)) if results else None


def _mean(results: Sequence[Result], value: Callable[[Result], float]) -> float | None:
    return _rounded(fmean(map(value, results))) if results else None


def _rounded(value: float) -> float:
    return round(value, 4)
