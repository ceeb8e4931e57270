"""Reproduce: confirm a committed change once more, here and now, and say whether it still holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotune.committed_change import CommittedChange, committed_change
from autotune.harness import Budget, Options, Outcome, Progress, RunDir, start
from autotune.harness.laboratory import Laboratory
from autotune.harness.outcome import candidate_failed
from autotune.harness.prepare import Again
from autotune.verify import verify_run
from tools.ledger import Ledger, LedgerView
from verifiers import Evidence, Judgement, gather
from verifiers.faults import HARNESS_FAULTS
from verifiers.looking import blocks_of
from verifiers.statistics.blocked import blocked_ratio

__all__ = ["FOLDER", "Answer", "Reproduction", "reproduce"]

FOLDER = "reproduced"
"Below the folder of runs: a reproduction is no attempt at a commit, and several of one change count among themselves."

Answer = Literal["holds", "doesn't hold", "can't tell", "stopped"]
_EXIT_CODES: Mapping[Answer, int] = {"holds": 0, "doesn't hold": 2, "can't tell": 3, "stopped": 4}


@dataclass(frozen=True)
class Reproduction:
    """What came of confirming a commit again."""

    commit: str
    original: str
    "Id of the run that made the commit."
    run: str
    "Folder of the run that confirmed it again; empty where nothing was launched."
    answer: Answer
    sentence: str
    metric: str
    ratio_then: float | None
    "Candidate / baseline of the objective over the confirmation's launches (Hodges-Lehmann); None where unknown."
    ratio_now: float | None
    differences: tuple[str, ...]
    "Between where the change was verified and here."
    record: tuple[str, ...]
    "What is wrong with the original run's record, or what isn't known of it."

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.answer]

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **plain,
            "differences": list(self.differences),
            "record": list(self.record),
            "exit_code": self.exit_code,
        }


def reproduce(
    commit: str,
    where: Path,
    runs: Path,
    progress: Progress,
    budget: Budget,
    *,
    laboratory: Laboratory | None = None,
    clock: Callable[[], float] = time.time,
) -> Reproduction:
    """Confirm the change of `commit`, in the repository around `where`, with fresh launches on new hidden seeds.

    The record of the run that made it is looked for in `runs` and beside the deployment, and checked first: one that
    doesn't hold is no ground for a comparison, and nothing is launched. Where there is none, the commit itself says
    what is to be compared: the config before it and the config in it. The plan is drawn as for any confirmation, from
    the new run's own id, and the confirm stage's verifiers judge.

    Args:
        laboratory: measures instead of this machine.
        clock: Unix seconds, for the ledger.

    Raises:
        UserError: no such commit, not one that autotune made, or the deployment can't be run here.
    """
    change = committed_change(where, commit)
    original = _original(change, runs)
    record: tuple[str, ...] = ("its run's folder isn't here, so only the commit itself is known",)
    if original is not None:
        verified = verify_run(original)
        record = verified.notes
        if verified.problems:
            sentence = f"the record of {original.id} doesn't hold: {verified.problems[0]}"
            return _answer(change, None, "doesn't hold", sentence, None, None, (), verified.problems)
    options = Options(budget=budget, commit=False, again=Again(change.sha, change.patch))
    outcome = start(
        change.file, runs / FOLDER, options, progress, laboratory=laboratory, clock=clock, text=change.before
    )
    then = Ledger.read(original.ledger) if original is not None else None
    now = Ledger.read(outcome.run.ledger)
    answer, sentence = _said(outcome, now)
    return _answer(change, outcome.run, answer, sentence, then, now, tuple(_differences(change, then, now)), record)


def _original(change: CommittedChange, runs: Path) -> RunDir | None:
    for folder in (runs, change.file.parent / "runs", change.root / "runs"):
        if (folder / change.run / "ledger.jsonl").is_file():
            return RunDir(folder / change.run)
    return None


def _said(outcome: Outcome, ledger: LedgerView) -> tuple[Answer, str]:
    verdict = ledger.find("verdict")
    if outcome.decision == "stopped":
        return "stopped", outcome.sentence
    if verdict is None:
        return _never_confirmed(ledger)
    judgement = Judgement.from_json(verdict.data)
    if judgement.refusal is None:
        return "holds", "every verifier of the confirmation passes again"
    told = f"{judgement.refusal.rule}: {judgement.refusal.sentence}"
    return ("doesn't hold" if judgement.status == "FAIL" or candidate_failed(ledger) else "can't tell"), told


def _never_confirmed(ledger: LedgerView) -> tuple[Answer, str]:
    """The candidate was refused before a launch, didn't run, or couldn't be measured soundly."""
    for entry in ledger.of_kind("preflight"):
        if entry.data["status"] != "PASS":
            refusal = next(v for v in entry.data["verdicts"] if v["status"] != "PASS")
            return "doesn't hold", f"refused before a launch here ({refusal['rule']}): {refusal['sentence']}"
    for entry in ledger.of_kind("trial"):
        if entry.data["role"] == "search" and entry.data["failure"]:
            failure = entry.data["failure"]
            told = f"the committed config doesn't run here ({failure['kind']}): {failure['message']}"
            return ("can't tell" if failure["kind"] in HARNESS_FAULTS else "doesn't hold"), told
    finalist = ledger.find("finalist")
    return "can't tell", finalist.data["why"] if finalist else "it wasn't measured within the budget"


def _answer(
    change: CommittedChange,
    run: RunDir | None,
    answer: Answer,
    sentence: str,
    then: LedgerView | None,
    now: LedgerView | None,
    differences: tuple[str, ...],
    record: tuple[str, ...],
) -> Reproduction:
    metric = change.deployment.objective.metric
    return Reproduction(
        commit=change.sha,
        original=change.run,
        run=str(run.path) if run else "",
        answer=answer,
        sentence=sentence,
        metric=metric,
        ratio_then=_ratio(gather(then), metric) if then else None,
        ratio_now=_ratio(gather(now), metric) if now else None,
        differences=differences,
        record=record,
    )


def _ratio(evidence: Evidence, metric: str) -> float | None:
    blocks = blocks_of(evidence.confirmation, metric)
    return blocked_ratio(blocks) if blocks else None


def _differences(change: CommittedChange, then: LedgerView | None, now: LedgerView) -> Iterator[str]:
    """What is another than it was, by name where the original's record tells."""
    here = now.find("survey")
    assert here is not None
    there = then.find("survey") if then else None
    if there is None:
        if change.environment and change.environment != here.data["environment"]:
            yield "hardware or software isn't what it was; of that only a fingerprint is known"
        return
    before, after = there.data, here.data
    for name in sorted(before["hardware"].keys() | after["hardware"].keys()):
        old, new = before["hardware"].get(name), after["hardware"].get(name)
        if old != new:
            yield f"{name}: {old} then, {new} now"
    if before["model_digest"] != after["model_digest"]:
        yield "the model's files aren't those that were served then"
    started = [view.find("run.started") for view in (then, now) if view is not None]
    if len({entry.data["verifiers_digest"] for entry in started if entry is not None}) > 1:
        yield "the verifiers' code isn't what judged then"
