"""Hypotheses: what each proposal was expected to do, judged by what its trial measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from agents.actions import Direction, Propose, parse_action
from agents.view import HypothesisStatus
from autotune.harness.history import History, Tried
from tools.ledger import LedgerView
from tools.proposal import Source
from verifiers.statistics.blocks import noise_of_one

__all__ = ["HitRate", "Judged", "hit_rates", "hypotheses"]

_LEAST_NOISE = 0.02
"Relative. Two launches of one config can agree by chance; less than this is never a finding."


@dataclass(frozen=True, slots=True)
class Judged:
    """One hypothesis and what came of it."""

    trial: str
    source: Source
    text: str
    expect: Mapping[str, Direction]
    status: HypothesisStatus
    found: str


@dataclass(frozen=True, slots=True)
class HitRate:
    """How often one source was right."""

    confirmed: int
    refuted: int
    undecided: int

    @property
    def rate(self) -> float | None:
        """Share of the decided ones that were confirmed; None where none was decided."""
        decided = self.confirmed + self.refuted
        return self.confirmed / decided if decided else None


def hypotheses(ledger: LedgerView, history: History) -> tuple[Judged, ...]:
    """Every proposal that was put to a trial, in order; what the search proposed expects nothing and isn't among them.

    A proposal without an expectation of its own expects the objective to improve.
    """
    return tuple(_judged(*one, history) for one in _proposals(ledger, history))


def hit_rates(judged: tuple[Judged, ...]) -> dict[str, HitRate]:
    """By source."""
    counts = {source: Counter(one.status for one in judged if one.source == source) for source in _sources(judged)}
    return {source: HitRate(c["confirmed"], c["refuted"], c["undecided"]) for source, c in counts.items()}


def _sources(judged: tuple[Judged, ...]) -> list[Source]:
    return sorted({one.source for one in judged})


def _proposals(ledger: LedgerView, history: History) -> Iterator[tuple[Tried, Propose]]:
    tried = {trial.id: trial for trial in history.candidates}
    for entry in ledger.of_kind("action"):
        if entry.data.get("by_search") or entry.data["action"]["kind"] != "propose":
            continue
        action = parse_action(entry.data["action"])
        trial = tried.get(f"t{str(entry.key).partition(':')[2]}")  # the turn names the trial that it leads to
        if trial is not None and isinstance(action, Propose):
            yield trial, action


def _judged(trial: Tried, action: Propose, history: History) -> Judged:
    objective = history.deployment.objective
    better: Direction = "lower" if objective.lower_is_better else "higher"
    expect = dict(action.expect) or {objective.metric: better}
    status, found = _status(trial, expect, history)
    return Judged(trial.id, trial.source, action.hypothesis, expect, status, found)


def _status(trial: Tried, expect: Mapping[str, Direction], history: History) -> tuple[HypothesisStatus, str]:
    """Refuted where one metric moved against the expectation beyond the noise, or the config doesn't run; confirmed
    where all moved as expected beyond it."""
    if trial.spoilt:
        return "undecided", "the launch was spoilt, by no fault of the config"
    if trial.failure is not None:
        return "refuted", f"the config doesn't run: {trial.failure['kind']}"
    if trial.refusal:
        return "undecided", "the measurement was not believed"
    standing = _stands_on(trial, history)
    told, right, wrong = [], 0, 0
    for metric, direction in expect.items():
        before, after = _mean(standing, metric), trial.summary.get(metric)
        if not before or after is None:
            told.append(f"{metric} not measured")
            continue
        change = after / before - 1
        noise = max(_LEAST_NOISE, noise_of_one(_values(history.baselines, metric)) or history.spread or 0.0)
        told.append(f"{metric} {change:+.1%} (noise {noise:.1%})")
        right += (change if direction == "higher" else -change) > noise
        wrong += (change if direction == "lower" else -change) > noise
    status: HypothesisStatus = "refuted" if wrong else "confirmed" if right == len(expect) else "undecided"
    return status, f"{', '.join(told)}, against {standing[0].id}"


def _stands_on(trial: Tried, history: History) -> tuple[Tried, ...]:
    """What the trial is compared with: the best config before it where it keeps all of that, else the baseline."""
    earlier = tuple(other for other in history.tried if other.seq < trial.seq)
    best = History(earlier, (), history.deployment, 0.0).incumbent
    kept = best is not None and best.patch.items() <= trial.patch.items() and dict(best.patch) != dict(trial.patch)
    if best is not None and kept and (history.gain(best) or 0.0) > 0:
        return (best,)
    return history.baselines or earlier[:1]


def _values(trials: tuple[Tried, ...], metric: str) -> list[float]:
    return [trial.summary[metric] for trial in trials if metric in trial.summary]


def _mean(trials: tuple[Tried, ...], metric: str) -> float | None:
    values = _values(trials, metric)
    return fmean(values) if values else None
