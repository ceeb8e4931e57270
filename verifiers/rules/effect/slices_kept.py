"""Does every kind of request keep what it had, or did an easy majority pay for the hard ones?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from tools.measure.slo import Slo
from tools.measure.summary import summarise
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.looking import whole_blocks
from verifiers.statistics.harm import Harm, harm
from verifiers.statistics.promise import clearly_broken
from verifiers.verdict import Verdict, error, failed, passed

RULE = "slices.kept"

MARGIN = 0.25
"Worsening of a slice, beyond chance, that is refused whatever the rest gained."
ROOM = 0.10
"A promise is broken in a slice where every launch misses it by more: a slice has few requests."

_JUDGED = ("mean_ttft_ms", "mean_e2el_ms", "p95_ttft_ms", "p95_e2el_ms")


def verify(evidence: Evidence) -> Verdict:
    """Short and long prompts (by the words of the workload, before anything was sent), first and later turns: each
    slice keeps the promises that the baseline's same slice keeps, or misses them by no more than ROOM, and isn't worse
    beyond chance by more than MARGIN.
    """
    trials = evidence.confirmation
    blocks = whole_blocks(trials)
    if not blocks or any(trial.measurement is None for block in blocks for trial in block):
        return error(RULE, "no whole block of the confirmation was measured", *trials)
    if any(len(t.prompt_words) != len(t.asked_tokens) for block in blocks for t in block):
        return error(RULE, "the workload's prompts aren't known, so no slice can be told", *trials)
    sliced = {name: _summaries(blocks, belongs, evidence.deployment.slo) for name, belongs in _SLICES.items()}
    whole = {name: found for name, found in sliced.items() if found is not None}
    if not whole:
        return passed(RULE, "the requests are all of one kind", *trials)
    for name, summaries in whole.items():
        broken = _broken(blocks, summaries, evidence.deployment.slo)
        if broken:
            return failed(RULE, f"{name}: {broken}", *trials)
    asked = [found for name, summaries in whole.items() for found in _harms(name, blocks, summaries)]
    harmed = [found for found in asked if found.shown(len(asked))]
    if harmed:
        return failed(RULE, max(harmed, key=lambda found: found.worse).said, *trials)
    return passed(RULE, f"no slice ({', '.join(whole)}) is worse beyond chance or breaks a promise it kept", *trials)


Belongs = Callable[[TrialEvidence, int, int], bool]
"""Whether a request, by its index and its turn, is in a slice of a trial."""


def _long(trial: TrialEvidence, index: int, turn: int) -> bool:
    return trial.prompt_words[index] > median(trial.prompt_words)


_SLICES: dict[str, Belongs] = {
    "short prompts": lambda trial, index, turn: not _long(trial, index, turn),
    "long prompts": _long,
    "first turns": lambda trial, index, turn: turn == 0,
    "later turns": lambda trial, index, turn: turn > 0,
}

Summaries = dict[str, dict[str, float]]


def _summaries(blocks: tuple[tuple[TrialEvidence, ...], ...], belongs: Belongs, slo: Slo) -> Summaries | None:
    """Each trial's summary of the slice, by id; None where it is empty or everything somewhere."""
    found: Summaries = {}
    for trial in (trial for block in blocks for trial in block):
        assert trial.measurement is not None
        records = trial.measurement.records
        mine = tuple(r for r in records if belongs(trial, r.index, r.turn))
        if not mine or len(mine) == len(records):
            return None
        found[trial.id] = summarise(replace(trial.measurement, records=mine, offered=len(mine)), slo)
    return found


def _broken(blocks: tuple[tuple[TrialEvidence, ...], ...], summaries: Summaries, slo: Slo) -> str:
    promised = [trial for block in blocks for trial in block if trial.load_factor == 1.0]
    for metric, bound in sorted(slo.bounds().items()):
        values = {
            arm: [summaries[t.id].get(metric, float("inf")) for t in promised if t.arm == arm] for arm in ("A", "B")
        }
        if clearly_broken(values["A"], values["B"], bound, ROOM):
            return f"{metric} is {median(values['B']):.4g} where the baseline keeps the promise of {bound:g}"
    return ""


def _harms(name: str, blocks: tuple[tuple[TrialEvidence, ...], ...], summaries: Summaries) -> list[Harm]:
    found = []
    for metric in _JUDGED:
        values = [[(trial.arm, summaries[trial.id].get(metric)) for trial in block] for block in blocks]
        told = [[(arm, value) for arm, value in block if value is not None] for block in values]
        if all(len(block) == 4 for block in told):
            found.append(harm(f"{metric} of {name}", told, MARGIN))
    return found
