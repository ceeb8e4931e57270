"""The end of a run: what passed is shown to the last verifiers and committed; anything else keeps the baseline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.approval import request_for
from autotune.harness.change import change_of, harness_now
from autotune.harness.context import Context
from autotune.harness.outcome import outcome_of
from autotune.harness.state import State
from tools.ledger import Entry
from tools.repo import RepoState, commit_change
from verifiers import gather, judge
from verifiers.rules.publication import approval_bound

__all__ = ["finish", "publish", "trailers_of"]


def publish(state: State, runtime: Runtime[Context]) -> Command[Literal["approve", "finish"]]:
    """Ask the questions of publication about a change that passed, and commit it on a branch of its own.

    What would be committed is recorded first, then judged, then done: a run that is killed in between goes on with the
    same change, message and date, so that it ends in the same commit. Where a person has to approve, they are asked
    once all else passes, and the run comes back here with their answer.
    """
    context = runtime.context
    verdict = context.ledger.find("verdict")
    if verdict is None or verdict.data["status"] != "PASS" or not context.commit:
        return Command(goto="finish")
    context.progress.phase("publish", "is the change what was planned, and its record whole?", 0.0)
    context.effects.once("harness", "harness", lambda: harness_now(context))
    context.effects.once("change", "change", lambda: change_of(context, verdict))
    if context.approval and context.ledger.find("approval") is None and _else_passes(context):
        context.effects.once("approval.request", "approval.request", lambda: request_for(context))
        return Command(goto="approve")
    judged = context.effects.once("publication", "publication", lambda: _judge(context))
    if judged["status"] == "PASS":
        context.progress.phase("commit", "the verified change, on a branch", 0.0)
        context.effects.once("commit", "commit", lambda: _commit(context))
    return Command(goto="finish")


def _else_passes(context: Context) -> bool:
    """Whether an approval is all that is missing: nobody is asked about what can't be committed anyway."""
    return judge("publish", gather(context.ledger), without=frozenset({approval_bound.RULE})).status == "PASS"


def _judge(context: Context) -> dict[str, Any]:
    return judge("publish", gather(context.ledger)).to_json()


def _commit(context: Context) -> dict[str, Any]:
    change, publication, started = (context.ledger.find(key) for key in ("change", "publication", "run.started"))
    assert change is not None and publication is not None and started is not None
    deployment, base = context.file.deployment, RepoState.from_json(started.data["base"])
    texts = {context.file.path: change.data["after_text"]}
    if manifest := change.data.get("manifest"):
        texts[Path(started.data["manifest"]["file"])] = manifest["after_text"]
    result = commit_change(
        texts,
        branch=f"autotune/{deployment.name}/{deployment.playbook}",
        message=change.data["message"],
        trailers=trailers_of(context.run.id, {entry.key: entry for entry in context.ledger}),
        date_unix=int(publication.time),
        base=replace(base, head=change.data["current_head"]),  # the one that was judged, whatever HEAD is by now
    )
    return {"sha": result.sha, "branch": result.branch, "repository": str(context.file.path.parent)}


def trailers_of(run: str, by_key: dict[str | None, Entry]) -> dict[str, str]:
    """What the commit says about its record: which run and plan, the chain's head at the last judgement, who judged,
    on what machine it was measured, and who approved it."""
    publication, approval = by_key["publication"], by_key.get("approval")
    return {
        "Autotune-Run": run,
        "Autotune-Plan": by_key["plan"].data["plan_digest"],
        "Autotune-Ledger": publication.hash,
        "Autotune-Verifiers": publication.data["verifiers_digest"],
        "Autotune-Environment": by_key["survey"].data["environment"],
        **(_signed(approval) if approval is not None else {}),
    }


def _signed(approval: Entry) -> dict[str, str]:
    """Who approved, when (UTC), and the digest of what they were asked."""
    at = datetime.fromtimestamp(approval.time, UTC)
    return {
        "Autotune-Approved-By": approval.data["by"],
        "Autotune-Approved-At": at.isoformat(timespec="seconds"),
        "Autotune-Approval": approval.data["digest"],
    }


def finish(state: State, runtime: Runtime[Context]) -> Command[Literal["__end__"]]:
    """Record how the run ended."""
    context = runtime.context
    context.effects.once("finished", "run.finished", lambda: outcome_of(context.ledger))
    return Command(goto="__end__")
