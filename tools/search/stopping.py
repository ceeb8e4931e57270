"""When to stop, what to repeat, and which config to keep: what one reads out of a history besides the next trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np

from tools.search.candidates import candidates, walked
from tools.search.observation import Observation, in_full
from tools.search.outlook import Outlook
from tools.search.problem import Problem
from tools.search.turn import Turn
from tools.targets.knobs import Value

__all__ = ["reason_to_stop", "recommended", "worth_repeating"]

_FEWEST = 8
"Trials that ran, below which nothing is expected with enough right to stop for it."

_AHEAD = 2
"Trials that are looked ahead: together they may bring at most the sum of what each is expected to bring."


def reason_to_stop(problem: Problem, history: Sequence[Observation]) -> str | None:
    """Why further trials aren't worth their launches; None while they are, or while too little is known.

    They aren't where the next two together are expected to gain less than can be told from noise or, where that is
    more, than is worth having.
    """
    history = in_full(history)
    turn = Turn(problem, history)
    if sum(seen.ran for seen in history) < _FEWEST or not any(seen.kept for seen in history):
        return None
    pool = candidates(turn, walked(turn))
    if not pool:
        return None
    outlook = Outlook(problem, history, pool, turn.seed)
    gains = outlook.improvement * outlook.runs * outlook.keeps
    allowed = (int(place) for place in np.argsort(-gains) if turn.may_try(pool[int(place)]))
    expected = sum(float(gains[place]) for place in islice(allowed, _AHEAD))
    least = max(outlook.noise, problem.min_effect)
    if expected >= least:
        return None
    if outlook.noise >= problem.min_effect:
        return f"expected improvement below noise: {expected:.1%} expected, noise {outlook.noise:.1%}"
    return f"expected improvement below the least worth having: {expected:.1%} expected, {problem.min_effect:.1%} asked"


def recommended(problem: Problem, history: Sequence[Observation]) -> dict[str, Value] | None:
    """The patch of the tried config whose truth is expected to be best, promises kept first; None if nothing ran.

    Not always the one that measured best: of many noisy launches the best is also the luckiest.
    """
    history = in_full(history)
    ran = [seen for seen in history if seen.ran]
    if not ran:
        return None
    expected = _expected(problem, history)
    best = max(range(len(ran)), key=lambda number: (ran[number].kept, expected[number]))
    return problem.space.reduce(ran[best].patch)


def worth_repeating(problem: Problem, history: Sequence[Observation]) -> dict[str, Value] | None:
    """The patch that measured best, where it was measured once and noise may have flattered it; else None.

    A strategy never proposes what was tried; whoever conducts the trials may.
    """
    history = in_full(history)
    ran = [seen for seen in history if seen.ran]
    if len(ran) < 2:
        return None
    scores = Outlook(problem, history, [], 0).scores
    best = max(range(len(ran)), key=lambda number: (ran[number].kept, scores[number]))
    patch = problem.space.reduce(ran[best].patch)
    if sum(problem.space.reduce(seen.patch) == patch for seen in ran) > 1:
        return None
    noise = Outlook(problem, history, [], 0).noise
    flattered = float(scores[best] - scores.mean()) - _expected(problem, history)[best]
    return patch if flattered > noise / math.sqrt(2) else None


def _expected(problem: Problem, history: Sequence[Observation]) -> list[float]:
    """Of each config that ran, its score as the model sees it."""
    outlook = Outlook(problem, history, [], Turn(problem, history).seed)
    return [float(value) for value in outlook.expected_of_tried.mean(axis=0)]
