"""The end of a run: commit what passed, keep the baseline otherwise, and say which."""

from __future__ import annotations

import json
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.state import State
from tools.errors import UserError
from tools.ledger import Entry
from tools.manifests.yaml_file import YamlFile
from tools.repo import RepoState, commit_change
from verifiers import Judgement
from verifiers.rules.effect import improvement_primary

__all__ = ["finish", "publish"]


def publish(state: State, runtime: Runtime[Context]) -> Command[Literal["finish"]]:
    """Commit a PASS on a branch of its own. Anything else leaves the repository as it is."""
    context = runtime.context
    verdict = context.ledger.find("verdict")
    if verdict is not None and verdict.data["status"] == "PASS" and context.commit:
        context.progress.phase("commit", "the verified change, on a branch", 0.0)
        context.effects.once("commit", "commit", lambda: _commit(context, verdict))
    return Command(goto="finish")


def _commit(context: Context, verdict: Entry) -> dict[str, Any]:
    plan = context.ledger.find("plan")
    started = context.ledger.find("run.started")
    assert plan is not None and started is not None
    file = YamlFile.read(context.file.path)
    if file.text != started.data["file_text"]:
        raise UserError(
            f"{context.file.path} changed since the run started; what was verified no longer applies. "
            "Restore it and resume, or start a new run"
        )
    deployment = context.file.deployment
    change = context.baseline.diff(context.baseline.patched(plan.data["patch"]))
    text = file.splice({("config", name): new for name, (_, new) in change.items() if new is not None})
    result = commit_change(
        context.file.path,
        text,
        branch=f"autotune/{deployment.name}/{deployment.playbook}",
        message=_message(context, verdict),
        trailers={
            "Autotune-Run": context.run.id,
            "Autotune-Plan": plan.data["plan_digest"],
            "Autotune-Ledger": verdict.hash,
        },
        date_unix=int(verdict.time),
        base=RepoState.from_json(started.data["base"]),
    )
    return {"sha": result.sha, "branch": result.branch, "repository": str(context.file.path.parent)}


def _message(context: Context, verdict: Entry) -> str:
    """Everything but the quoted rationale is rendered from the ledger."""
    plan = context.ledger.find("plan")
    assert plan is not None
    changes = context.baseline.diff(context.baseline.patched(plan.data["patch"]))
    judgement = Judgement.from_json(verdict.data)
    lines = [f"Tune {context.file.deployment.name}: {', '.join(sorted(changes))}", ""]
    lines += [f"- {name}: {json.dumps(old)} -> {json.dumps(new)}" for name, (old, new) in changes.items()]
    lines += ["", *(f"{v.status} {v.rule}: {v.sentence}" for v in judgement.verdicts)]
    return "\n".join(lines)


def finish(state: State, runtime: Runtime[Context]) -> Command[Literal["__end__"]]:
    """Record how the run ended."""
    context = runtime.context
    context.effects.once("finished", "run.finished", lambda: _outcome(context))
    return Command(goto="__end__")


def _outcome(context: Context) -> dict[str, Any]:
    verdict, finalist = context.ledger.find("verdict"), context.ledger.find("finalist")
    commit = context.ledger.find("commit")
    if verdict is None:
        why = finalist.data["why"] if finalist else "nothing was tried"
        return {"decision": "unchanged", "exit_code": 0, "sentence": f"No commit: {why}."}
    judgement = Judgement.from_json(verdict.data)
    if judgement.status == "PASS":
        where = f"committed {commit.data['sha'][:12]} on branch {commit.data['branch']}" if commit else "not committed"
        return {"decision": "tuned", "exit_code": 0, "sentence": f"PASS: {where}."}
    refusal = judgement.refusal
    assert refusal is not None
    # Whether it is better is asked before what it costs: what isn't better is left alone, and nothing was refused.
    better = next((v for v in judgement.verdicts if v.rule == improvement_primary.RULE), None)
    shown = better if better is not None and better.status in ("FAIL", "INCONCLUSIVE") else refusal
    sentence = f"No commit, the baseline is kept. {shown.status} {shown.rule}: {shown.sentence}."
    if shown is better and better.status == "FAIL":
        return {"decision": "unchanged", "exit_code": 0, "sentence": sentence}
    if shown.status == "INCONCLUSIVE":
        return {"decision": "inconclusive", "exit_code": 3, "sentence": sentence}
    return {"decision": "refused", "exit_code": 2, "sentence": sentence}
