"""Expert: carries out a playbook without an LLM, then hands over to the numeric search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.actions import Action, Direction, Finish, Measure, Propose, Search
from agents.advice import Advice, advise, advise_all
from agents.playbook import Playbook
from agents.proposer import Turn
from agents.view import TrialView, View
from tools.targets.knobs import Value

__all__ = ["Expert"]

_SEARCH_BATCH = 4
"Search trials before the hypotheses are asked again: a better config can make another of them hold."

_HYPOTHESIS_CHARS = 400

_Candidate = tuple[Mapping[str, Value], str, dict[str, Direction]]
"""A patch against the baseline, why, and what it should move."""


@dataclass(frozen=True)
class Expert:
    """Trials are dear and knowledge is cheap, so all that the playbook knows is tried at once.

    1. Every hypothesis that holds, applied together: where faults hide each other, only this shows the gain. Those
       that only a measurement can decide are left out.
    2. Each hypothesis alone on top of the best config so far, so that what the first step got wrong is found; then
       each that only a measurement can decide.
    3. The best config without a hypothesis whose expectation it refuted.
    4. Search, until `patience` of its trials in a row brought no gain beyond the noise.

    Each step stands on the best config so far, so a gain starts the list again there. A deployment for which no
    hypothesis holds costs `patience` trials (or `min_trials`) and ends in "nothing to change".
    """

    playbook: Playbook

    @property
    def name(self) -> str:
        return "expert"

    def turn(self, view: View) -> Turn:
        """The next action, a pure function of `view`.

        Raises:
            UserError: the playbook can't be worked out for this deployment.
        """
        return Turn(self._next_action(view))

    def _next_action(self, view: View) -> Action:
        if view.trials_left <= 0 or view.seconds_left <= 0:
            return Finish(reason=f"the {'trials' if view.trials_left <= 0 else 'time'} for exploring is spent")
        if (action := self._learn_noise(view)) is not None:
            return action
        if "propose" in self.playbook.allowed_actions:
            for patch, why, expect in self._candidates(view):
                if view.changes(patch) and view.tried_as(patch) is None:
                    return Propose(patch=view.changes(patch), hypothesis=_shortened(why), expect=expect)
        return self._search(view)

    def _learn_noise(self, view: View) -> Action | None:
        """Without a noise band every small difference looks like a finding; one repeat of the baseline gives it."""
        baseline = view.baseline_trial
        if view.noise is not None or baseline is None or not baseline.measured:
            return None
        if "measure" not in self.playbook.allowed_actions or view.trials_left < 3:
            return None
        repeats = sum(not view.changes(trial.patch) for trial in view.trials)
        return Measure(trial=baseline.id) if repeats < 2 else None

    def _candidates(self, view: View) -> Iterator[_Candidate]:
        best = view.best
        standing: Mapping[str, Value] = best.patch if best is not None else {}
        metrics = best.metrics if best is not None else {}
        config = {**view.baseline.values, **standing}
        together = advise_all(self.playbook, view, config, metrics)
        yield {**standing, **_merged(together)}, _reasons(together), _expected(together)
        for advice in sorted(advise(self.playbook, view, config, metrics), key=lambda advice: advice.hypothesis.alone):
            yield {**standing, **advice.patch}, _reasons((advice,)), dict(advice.hypothesis.expect)
        yield from self._without_refuted(view, best)

    def _without_refuted(self, view: View, best: TrialView | None) -> Iterator[_Candidate]:
        baseline = view.baseline_trial
        if best is None or baseline is None or best is baseline or not baseline.measured:
            return
        for advice in advise_all(self.playbook, view, view.baseline.values, baseline.metrics):
            applied = all(best.patch.get(name) == value for name, value in advice.patch.items())
            if applied and _refuted(advice, best, baseline, view.least_gain):
                kept = {name: value for name, value in best.patch.items() if name not in advice.patch}
                yield kept, f"without {advice.hypothesis.id}, whose expectation was not met", {}

    def _search(self, view: View) -> Action:
        stop = self.playbook.stop
        made = sum(bool(view.changes(trial.patch)) for trial in view.trials)
        due = max(stop.patience - _stale_search_trials(view), stop.min_trials - made)
        if due <= 0 or "search" not in self.playbook.allowed_actions:
            return Finish(reason=_conclusion(view))
        trials = min(due, _SEARCH_BATCH, view.trials_left)
        return Search(trials=trials, why="no hypothesis is left to try; search around what is known")


def _merged(advice: tuple[Advice, ...]) -> dict[str, Value]:
    return {name: value for one in advice for name, value in one.patch.items()}


def _reasons(advice: tuple[Advice, ...]) -> str:
    return " ".join(f"[{one.hypothesis.id}] {one.hypothesis.why}" for one in advice)


def _expected(advice: tuple[Advice, ...]) -> dict[str, Direction]:
    """What all of `advice` together should move; nothing is said of a metric that they pull both ways."""
    said: dict[str, set[Direction]] = {}
    for one in advice:
        for metric, direction in one.hypothesis.expect.items():
            said.setdefault(metric, set()).add(direction)
    return {metric: directions.pop() for metric, directions in said.items() if len(directions) == 1}


def _shortened(text: str) -> str:
    return text if len(text) <= _HYPOTHESIS_CHARS else text[: _HYPOTHESIS_CHARS - 1] + "…"


def _refuted(advice: Advice, trial: TrialView, baseline: TrialView, noise: float) -> bool:
    """Whether a metric moved against the expectation by more than the noise, baseline to trial."""
    for metric, direction in advice.hypothesis.expect.items():
        before, after = baseline.metrics.get(metric), trial.metrics.get(metric)
        if before and after is not None:
            change = after / before - 1
            if (change if direction == "lower" else -change) > noise:
                return True
    return False


def _stale_search_trials(view: View) -> int:
    """Search trials since the last trial, of any source, that beat all before it by more than the noise.

    Refused and failed ones count: they are evidence that the neighbourhood holds nothing better, and an endless run
    of refusals has to end too.
    """
    best, stale = view.baseline_trial, 0
    for trial in view.trials:
        if view.changes(trial.patch) and view.improves(trial, best):
            best, stale = trial, 0
        elif trial.source == "search":
            stale += 1
    return stale


def _conclusion(view: View) -> str:
    if view.incumbent is None or view.best is view.baseline_trial:
        return "nothing to change: no config was better than the baseline by more than the noise"
    return f"{view.incumbent} is the best of {len(view.trials)} trials, and the last ones brought no gain"
