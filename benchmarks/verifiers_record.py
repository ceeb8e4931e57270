"""Rows about the record: forgeries are noticed, a hostile proposer gets nothing committed, a commit can be confirmed
again. All on real runs of a tiny model."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.fixed import Fixed
from agents.proposer import Proposer
from autotune.harness import Budget, Options, Outcome, Silent, start
from autotune.reproduce import reproduce as confirm_again
from autotune.verify import verify_run
from benchmarks.table import Row
from tests.autotune.conftest import DEPLOYMENT, commit_deployment, git
from tests.autotune.forged import FORGERIES, copied
from tests.autotune.hostile import Hostile
from tests.tiny_model import build_tiny_model
from tools.ledger import Ledger

__all__ = ["forgery", "hostile", "reproduce"]

GOOD = {"max_num_seqs": 32, "enable_prefix_caching": True}
"What mends the deployment of the tests."
TURNS = 200


def forgery(quick: bool) -> Row:
    """Each kind of forgery of one real record, at many drawn places."""
    times = 15 if quick else 100
    with _service() as service:
        outcome = _tuned(service, Fixed(GOOD, "seats for the load"))
        honest = verify_run(outcome.run)
        caught: Counter[str] = Counter()
        missed: list[str] = []
        for name, forge in FORGERIES.items():
            for seed in range(times):
                place = service.parent / "forged"
                shutil.rmtree(place, ignore_errors=True)
                forged = copied(outcome.run, place)
                told = forge(forged, random.Random(f"{name}/{seed}"))
                if verify_run(forged).problems:
                    caught[name] += 1
                else:
                    missed.append(f"{name}: {told}")
    whole = outcome.decision == "tuned" and honest.holds and honest.anchored
    return {
        "value": dict(caught),
        "of": times,
        "honest": {"holds": honest.holds, "anchored": honest.anchored, "verdict": honest.verdict},
        "missed": missed[:10],
        "goal": "every one is caught, and the honest record holds",
        "ok": whole and not missed,
    }


def hostile(quick: bool) -> Row:
    """Every attack in turn for 200 turns; then a change that is truly better, with a secret for a reason."""
    turns = 70 if quick else TURNS
    with _service() as service:
        budget = Budget(wall_s=1800, trials=2, turns=turns)
        outcome = _tuned(service, Hostile(turns=turns), budget)
        ledger = Ledger.read(outcome.run.ledger)
        committed = _commits(service)
        found = verify_run(outcome.run)
        kinds = Counter(entry.data["status"] for entry in ledger.of_kind("preflight"))
        launched = [entry for entry in ledger.of_kind("trial") if entry.data["role"] == "search"]
        recorded = len(ledger.of_kind("action"))
        poisoned = _tuned(service, Fixed(GOOD, "the key is hf_" + "Zx9q" * 8))
        leaked = _commits(service)
    kept = len(launched) <= budget.trials and recorded <= turns
    return {
        "value": len(committed) + len(leaked),
        "turns": recorded,
        "refused_before_a_launch": kinds["FAIL"],
        "launched": [dict(entry.data["proposal"]["patch"]) for entry in launched],
        "record": list(found.problems),
        "decisions": [outcome.decision, f"{poisoned.decision}: {poisoned.sentence}"],
        "goal": f"0 bad configs committed in {turns} turns, budget held, the record whole",
        "ok": not committed and not leaked and kept and found.holds and poisoned.decision == "refused",
    }


def reproduce(quick: bool) -> Row:
    """A commit is confirmed again from its record, and from the commit alone."""
    with _service() as service:
        outcome = _tuned(service, Fixed(GOOD, "seats for the load"))
        if outcome.decision != "tuned":
            return {"ok": False, "why": outcome.sentence, "goal": "the commit holds"}
        branch = git(service.parent, "for-each-ref", "--format=%(refname:short)", "refs/heads/autotune")
        budget, runs = Budget(wall_s=1800, trials=1), outcome.run.path.parent
        told = [confirm_again(branch, service, runs, Silent(), budget)]
        if not quick:
            told.append(confirm_again(branch, service, service.parent.parent / "elsewhere", Silent(), budget))
    return {
        "value": [one.answer for one in told],
        "ratios": [[one.ratio_then, one.ratio_now] for one in told],
        "sentences": [one.sentence for one in told],
        "goal": "a true gain holds, with its run's folder and without",
        "ok": all(one.answer == "holds" for one in told),
    }


@contextmanager
def _service() -> Iterator[Path]:
    """A poorly configured deployment of a tiny model, committed."""
    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_model(Path(folder) / "tiny")
        yield commit_deployment(Path(folder) / "service", DEPLOYMENT.format(model=model))


def _tuned(service: Path, proposer: Proposer, budget: Budget | None = None) -> Outcome:
    runs = Path(tempfile.mkdtemp(dir=service.parent.parent)) / "runs"
    options = Options(budget=budget or Budget(wall_s=1800, trials=1))
    return start(service, runs, options, Silent(), proposer=proposer)


def _commits(service: Path) -> list[str]:
    """Branches of ours."""
    return git(service.parent, "for-each-ref", "--format=%(refname:short)", "refs/heads/autotune").splitlines()
