"""Does the model solve as many tasks as before?"""

from __future__ import annotations

from tools.evals.results import TaskResult
from verifiers.evidence import Evidence
from verifiers.recordings import CONFORMANCE, NEEDLE, declared_loss, recordings, scores
from verifiers.statistics.paired import Paired, paired
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.tasks"
ALPHA = 0.01
COLLAPSE = 0.5
"Share of a set's own score whose loss is a failure by itself, from three items on: small sets can't reach ALPHA."


def verify(evidence: Evidence) -> Verdict:
    """The bundled sets with exact scoring, item by item: the same items before and after, never an absolute score.

    Scorers are functions of the answer, and no model judges another: text that praises itself scores what any other
    text does.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    names = [name for name in heard.baseline[0].tasks if name not in (*CONFORMANCE, NEEDLE)]
    sets = {name: (heard.task("A", name), heard.task("B", name)) for name in names}
    before = _pooled([a for a, _ in sets.values()])
    after = _pooled([b for _, b in sets.values()])
    if before is None or after is None or {frozenset(run) for run in before} != {frozenset(run) for run in after}:
        return error(RULE, "the launches were asked no tasks, or different ones", *heard.trials)
    if refused := _refused([b for _, b in sets.values()]) - _refused([a for a, _ in sets.values()]):
        return failed(RULE, f"{len(refused)} tasks came to nothing, {min(refused)} first: not so before", *heard.trials)
    found = paired(before, after)
    said = (
        f"{found.baseline:.1%} of {found.items} tasks before, {found.candidate:.1%} after ({found.worse} items worse, "
    )
    said += f"{found.better} better, p = {found.p:.3g})"
    loss = declared_loss(evidence)
    if loss is not None:
        allowed = loss.max_task_drop + found.own_gap
        verdict = failed if found.drop > allowed else passed
        return verdict(RULE, f"{said}; a drop of {allowed:.1%} is declared or noise", *heard.trials)
    for name, (a, b) in sets.items():
        assert a is not None and b is not None
        if _collapsed(paired(scores(a), scores(b))):
            return failed(RULE, f"{said}; of {name} more than half is lost", *heard.trials)
    if found.p <= ALPHA:
        return failed(RULE, f"{said}: the change loses what the model could", *heard.trials)
    return passed(RULE, said, *heard.trials)


def _collapsed(found: Paired) -> bool:
    return found.worse - found.better >= 3 and found.drop > COLLAPSE * found.baseline


def _pooled(sets: list[list[TaskResult] | None]) -> list[dict[str, float]] | None:
    """Launch by launch, the scores of all sets' items; None where a set is missing, or all are."""
    if not sets or None in sets:
        return None
    runs = zip(*(each for each in sets if each is not None), strict=True)
    return [
        {f"{place}/{item}": score for place, run in enumerate(scores(launch)) for item, score in run.items()}
        for launch in runs
    ]


def _refused(sets: list[list[TaskResult] | None]) -> set[str]:
    """Items that came to nothing in any launch."""
    found = (result for each in sets for result in each or [])
    return {item for result in found for item, answer in result.answers.items() if answer.error}
