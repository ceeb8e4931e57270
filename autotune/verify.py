"""Verify: check a run's record offline, and derive its verdicts anew from the raw records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.anchor import anchor_of
from autotune.harness.rundir import RunDir
from autotune.rederive import as_of, rederived, same
from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.ledger import Entry, Ledger, LedgerView, verify_chain
from tools.manifests.yaml_file import YamlFile
from tools.repo import file_at
from verifiers import Evidence, gather, judge
from verifiers.digest import verifiers_digest
from verifiers.gate import MALFORMED

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
    """Chain and raw data whole, summaries and every judgement as recorded, the commit exactly what was verified.

    Nothing is launched and nothing outside the run's folder and the repository is read.
    """
    broken = verify_chain(run.ledger)
    if broken:
        return Verification(run.id, tuple(broken), (), "none", anchored=False)
    ledger = Ledger.read(run.ledger)
    try:
        return _verified(run, ledger)
    except (UserError, *MALFORMED) as error:
        # Each line is what it says it is, and together they make no run: written by something else than a harness.
        nonsense = f"the record makes no sense as a whole: {type(error).__name__}: {error}"
        return Verification(run.id, (nonsense, *anchor_of(run, ledger).problems), (), "none", anchored=False)


def _verified(run: RunDir, ledger: LedgerView) -> Verification:
    started = ledger.find("run.started")
    anchor = anchor_of(run, ledger)
    if started is None or ledger.find("survey") is None:
        missing = "the ledger holds no survey of a deployment"
        return Verification(run.id, (missing, *anchor.problems), (), "none", anchored=False)
    same_code = started.data["verifiers_digest"] == verifiers_digest()
    notes = [] if same_code else ["the verifiers' code has changed since the run; the verdicts below are today's"]
    evidence = gather(ledger)
    recorded = ledger.find("verdict")
    verdict = judge("confirm", as_of(evidence, recorded.seq)) if recorded else None
    problems = [
        *_deployment(started, evidence),
        *_summaries(ledger, evidence),
        *rederived(ledger, evidence, verdict, same_code=same_code),
        *anchor.problems,
    ]
    begun = Counter(entry.data["id"] for entry in ledger.of_kind("trial.started"))
    notes += [f"trial {name} was begun {times} times" for name, times in begun.items() if times > 1]
    if not anchor.sha:
        notes.append("unanchored: no commit holds this ledger's head, so a chain rebuilt as a whole can't be noticed")
    status = verdict.status if verdict else "none"
    return Verification(run.id, tuple(problems), tuple(notes), status, bool(anchor.sha))


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
        head, manifest = started.data["base"]["head"], started.data.get("manifest")
        try:
            if file_at(path, head) != started.data["file_text"]:
                problems.append("the deployment's text isn't what the commit that the run began on holds")
            if manifest and file_at(Path(manifest["file"]), head) != manifest["text"]:
                problems.append("the manifest's text isn't what the commit that the run began on holds")
        except UserError as error:
            problems.append(f"the commit that the run began on can't be read: {error}")
    return problems


def _summaries(ledger: LedgerView, evidence: Evidence) -> list[str]:
    recorded = {entry.data["id"]: entry.data["summary"] for entry in ledger.of_kind("trial")}
    return [
        f"trial {trial.id}: the recorded summary isn't what its raw records give"
        for trial in (*evidence.search, *evidence.confirmation, *evidence.extra)
        if not same(dict(trial.summary), recorded[trial.id])
    ]
