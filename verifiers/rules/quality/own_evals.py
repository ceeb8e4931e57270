"""Do the user's own evals come out as before?"""

from __future__ import annotations

from tools.evals.results import TaskResult
from verifiers.evidence import Evidence
from verifiers.recordings import Recordings, recordings, scores
from verifiers.statistics.paired import paired
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "quality.own_evals"
ALPHA = 0.05
FEWEST_FOR_A_FLIP = 10
"Of fewer items one is more than 10 %, and no near-tie that may be let pass."


def verify(evidence: Evidence) -> Verdict:
    """Each eval that the deployment names, item by item, against its declared `max_drop`.

    On top of it comes what chance alone does: the gap between the baseline's own launches, and one item, which a
    near-tie may flip, of ten or more. Beyond that it is a loss where the exact sign test says so, and undecided where
    it can't.
    """
    declared = evidence.deployment.evals
    if not declared:
        return passed(RULE, "the deployment names no evals of its own")
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    undecided: list[str] = []
    said: list[str] = []
    for own in declared:
        before, after = _of(heard, "A", own.name), _of(heard, "B", own.name)
        if before is None or after is None:
            return error(RULE, f"{own.name}: not every launch was asked", *heard.trials)
        if sentence := _refused(before) or _unscored([*before, *after]):
            return error(RULE, f"{own.name}: {sentence}", *heard.trials)
        found = paired(scores(before), scores(after))
        flip = 1 / found.items if found.items >= FEWEST_FOR_A_FLIP else 0.0
        allowed = own.max_drop + found.own_gap + flip
        line = f"{own.name}: {found.baseline:.1%} before, {found.candidate:.1%} after"
        if found.drop > allowed + 1e-9:
            line += f", a drop of more than {allowed:.1%} (p = {found.p:.3g})"
            if found.p <= ALPHA:
                return failed(RULE, line, *heard.trials)
            undecided.append(f"{line}; more items are needed to tell it from chance")
        said.append(line)
    if undecided:
        return inconclusive(RULE, undecided[0], *heard.trials)
    return passed(RULE, "; ".join(said), *heard.trials)


def _of(heard: Recordings, arm: str, name: str) -> list[TaskResult] | None:
    launches = heard.baseline if arm == "A" else heard.candidate
    found = [launch.own[name] for launch in launches if name in launch.own]
    whole = len(found) == len(launches) and all(result.answers for result in found)
    same = len(
        {frozenset(launch.own.get(name, TaskResult({})).answers) for launch in (*heard.baseline, *heard.candidate)}
    )
    return found if whole and same == 1 else None


def _refused(before: list[TaskResult]) -> str:
    """What the baseline itself gave no answer to, so that nothing can be compared; empty where it answered all."""
    answers = [answer for result in before for answer in result.answers.values()]
    faults = [answer.error for answer in answers if answer.error]
    return f"the baseline gave no answer to {len(faults)} of {len(answers)} questions: {faults[0]}" if faults else ""


def _unscored(launches: list[TaskResult]) -> str:
    """Which answers the owner's scorer gave no score, in either arm: its fault is nobody's loss."""
    answers = [answer for result in launches for answer in result.answers.values()]
    faults = [answer.unscored for answer in answers if answer.unscored]
    return f"the scorer gave {len(faults)} of {len(answers)} answers no score: {faults[0]}" if faults else ""
