"""Verify: check a run's record offline, and derive its verdicts anew from the raw records."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.harness.rundir import RunDir
from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.ledger import Entry, Ledger, LedgerView, verify_chain
from tools.manifests.yaml_file import YamlFile
from tools.repo import file_at, files_changed, read_trailers
from verifiers import Evidence, gather, judge
from verifiers.digest import verifiers_digest

__all__ = ["Verification", "verify_run"]


@dataclass(frozen=True)
class Verification:
    """What was checked and what doesn't hold."""

    run: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    verdict: str
    "PASS, FAIL, INCONCLUSIVE or ERROR as derived here; `none` where the run came to no verdict."
    anchored: bool
    "Whether a commit's trailer holds a head of this ledger; without one, a rebuilt chain can't be noticed."

    @property
    def holds(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "holds": self.holds,
            "verdict": self.verdict,
            "anchored": self.anchored,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def verify_run(run: RunDir) -> Verification:
    """Chain and raw data whole, summaries and verdicts as recorded, the commit exactly what was verified."""
    problems = verify_chain(run.ledger)
    if problems:
        return Verification(run.id, tuple(problems), (), "none", anchored=False)
    ledger = Ledger.read(run.ledger)
    started = ledger.find("run.started")
    if started is None or ledger.find("survey") is None:
        return Verification(run.id, ("the ledger holds no survey of a deployment",), (), "none", anchored=False)
    notes = []
    if started.data["verifiers_digest"] != verifiers_digest():
        notes.append("the verifiers' code has changed since the run; the verdicts below are today's")
    evidence = gather(ledger)
    problems += _deployment(started, evidence)
    problems += _summaries(ledger, evidence)
    problems += _judgements(ledger, evidence)
    verdict = ledger.find("verdict")
    derived = judge("confirm", evidence).to_json() if verdict else {}
    recorded = dict(verdict.data) if verdict else {}
    if notes:  # other code may say the same in other words
        derived, recorded = _without_sentences(derived), _without_sentences(recorded)
    if verdict and derived and not _same(derived, recorded):
        problems.append(f"the recorded verdict is {verdict.data['status']}, the raw records say {derived['status']}")
    problems += _finished(ledger)
    begun = Counter(entry.data["id"] for entry in ledger.of_kind("trial.started"))
    notes += [f"trial {name} was begun {times} times" for name, times in begun.items() if times > 1]
    anchored, found = _commit(run, ledger)
    problems += found
    if not anchored:
        notes.append("unanchored: no commit holds this ledger's head, so a chain rebuilt as a whole can't be noticed")
    return Verification(run.id, tuple(problems), tuple(notes), derived.get("status", "none"), anchored)


def _deployment(started: Entry, evidence: Evidence) -> list[str]:
    """What may be changed, and what counts as better, must be what the owner's file says."""
    path = Path(started.data["file"])
    try:
        written = parse_deployment(YamlFile.parse(path, started.data["file_text"]))
    except UserError as error:
        return [f"the deployment's text can't be read: {error}"]
    problems = []
    if (written.deployment, written.managed) != (evidence.deployment, evidence.managed):
        problems.append("the deployment that was judged isn't what its file's text says")
    if started.data["base"]:
        try:
            if file_at(path, started.data["base"]["head"]) != started.data["file_text"]:
                problems.append("the deployment's text isn't what the commit that the run began on holds")
        except UserError as error:
            problems.append(f"the commit that the run began on can't be read: {error}")
    return problems


def _finished(ledger: LedgerView) -> list[str]:
    """A run that says it tuned must have a PASS."""
    finished, verdict = ledger.find("finished"), ledger.find("verdict")
    passed = verdict is not None and verdict.data["status"] == "PASS"
    if finished is not None and (finished.data["decision"] == "tuned") != passed:
        return [f"the run says it ended {finished.data['decision']}, which its verdict doesn't bear out"]
    return []


def _without_sentences(judgement: dict[str, Any]) -> dict[str, Any]:
    return {
        **judgement,
        "verdicts": [{k: v for k, v in one.items() if k != "sentence"} for one in judgement.get("verdicts", [])],
    }


def _summaries(ledger: LedgerView, evidence: Evidence) -> list[str]:
    recorded = {entry.data["id"]: entry.data["summary"] for entry in ledger.of_kind("trial")}
    confirmed = evidence.confirmation
    return [
        f"trial {trial.id}: the recorded summary isn't what its raw records give"
        for trial in (*evidence.search, *confirmed)
        if not _same(dict(trial.summary), recorded[trial.id])
    ]


def _judgements(ledger: LedgerView, evidence: Evidence) -> list[str]:
    problems = []
    for entry in ledger.of_kind("judgement"):
        mine = evidence.about(t for t in evidence.search if t.id == entry.data["trial"] and t.measurement)
        if mine.trials:
            derived = judge("trial", mine).to_json()
            if derived["status"] != entry.data["status"]:
                problems.append(
                    f"trial {entry.data['trial']}: judged {entry.data['status']}, "
                    f"the raw records say {derived['status']}"
                )
    return problems


def _commit(run: RunDir, ledger: LedgerView) -> tuple[bool, list[str]]:
    """Whether a commit anchors this ledger, and what is wrong with that commit."""
    entry, started, verdict = ledger.find("commit"), ledger.find("run.started"), ledger.find("verdict")
    if entry is None or started is None:
        return False, []
    if verdict is None or verdict.data["status"] != "PASS":
        return False, ["there is a commit without a PASS"]
    path, sha = Path(started.data["file"]), entry.data["sha"]
    try:
        trailers = read_trailers(path, sha)
        committed, changed = file_at(path, sha), files_changed(path, sha)
    except UserError as error:
        return False, [f"the commit can't be read: {error}"]
    plan = ledger.find("plan")
    assert plan is not None
    noted = {"Autotune-Ledger": verdict.hash, "Autotune-Run": run.id, "Autotune-Plan": plan.data["plan_digest"]}
    if any(trailers.get(name) != value for name, value in noted.items()):
        return False, [
            f"commit {sha[:12]} doesn't anchor this ledger: the chain was rebuilt, or the commit is another run's"
        ]
    if len(changed) != 1:
        return True, [f"commit {sha[:12]} changes {len(changed)} files, it may change one"]
    try:
        before = YamlFile.parse(path, started.data["file_text"])
        planned = {("config", name): value for name, value in plan.data["patch"].items()}
        expected = before.splice({key: v for key, v in planned.items() if before.data["config"].get(key[1]) != v})
    except UserError as error:
        return True, [f"what was verified can't be written into the deployment: {error}"]
    if committed != expected:
        return True, [f"commit {sha[:12]} changes something else than what was verified"]
    return True, []


def _same(ours: Any, theirs: Any) -> bool:
    """Equal up to the rounding of the last digits, so that another build of the same arithmetic still agrees."""
    if isinstance(ours, float) and isinstance(theirs, int | float) and not isinstance(theirs, bool):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(_same(a, b) for a, b in zip(ours, theirs, strict=True))
    return bool(ours == theirs)
