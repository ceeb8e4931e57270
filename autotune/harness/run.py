"""Run: start one, or resume one where it was left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langgraph.types import Command

from agents.expert import Expert
from agents.fixed import Fixed
from agents.guarded import Guarded
from agents.llm import Llm
from agents.llm_settings import LlmPrices, LlmSettings
from agents.playbook import Playbook, load_playbook
from agents.proposer import Proposer
from autotune.harness.answer import Answer
from autotune.harness.budget import Budget
from autotune.harness.context import Context
from autotune.harness.effects import Boundary, Effects
from autotune.harness.graph import compiled, superstep_limit
from autotune.harness.killswitch import KillSwitch, Stopped
from autotune.harness.laboratory import Laboratory, LiveLaboratory
from autotune.harness.prepare import Options, prepare
from autotune.harness.progress import Discreet, Progress
from autotune.harness.rundir import RunDir
from autotune.harness.state import State
from tools.canonical import digest
from tools.deployment import Deployment, DeploymentFile
from tools.errors import UserError
from tools.ledger import Ledger
from tools.targets.choose import target_of
from tools.targets.spec import engine_of
from verifiers.digest import verifiers_digest

__all__ = ["Outcome", "resume", "start"]

Observer = Callable[[Boundary, str], None]


def _unobserved(boundary: Boundary, key: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, or why it stopped."""

    run: RunDir
    exit_code: int
    decision: str
    "tuned | unchanged | refused | inconclusive | error | stopped | waiting (for an approval)"
    sentence: str


def start(
    path: Path,
    runs: Path,
    options: Options,
    progress: Progress,
    observe: Observer = _unobserved,
    *,
    laboratory: Laboratory | None = None,
    proposer: Proposer | None = None,
    run: RunDir | None = None,
    clock: Callable[[], float] = time.time,
    text: str | None = None,
) -> Outcome:
    """Tune the deployment at `path` in a new run below `runs`.

    Args:
        laboratory: measures instead of this machine, such as a replay.
        proposer: decides instead of the one that `options` names.
        run: a new folder to run in; its name seeds all that is drawn. One named by the time by default.
        clock: Unix seconds, for the ledger; a replay's goes on by what it replays.
        text: the deployment's text, where it isn't what stands in the file now.

    Raises:
        UserError: bad input, or a baseline that doesn't run.
    """
    ready = prepare(path, options, progress, laboratory, text=text)
    proposer = proposer or _proposer(options, ready.playbook)
    run = run or RunDir.create(runs, ready.file.deployment.name)
    with Ledger(run.ledger, clock=clock) as ledger:
        ledger.append("run.started", ready.started, key="run.started")
        context = _context(
            run, ready.file, ready.laboratory, ready.playbook, proposer, options, ledger, progress, observe
        )
        context.effects.once("survey", "survey", lambda: ready.survey)
        try:
            return _drive(context)
        except UserError:
            if not any(entry.data["raw_blob"] for entry in ledger.of_kind("trial")):
                run.discard()  # nothing was measured, so there is nothing to resume or to report
            raise


def resume(
    run: RunDir,
    progress: Progress,
    budget: Budget | None = None,
    observe: Observer = _unobserved,
    *,
    answer: Answer | None = None,
    laboratory: Laboratory | None = None,
    clock: Callable[[], float] = time.time,
) -> Outcome:
    """Go on with a run where it was left; a finished one just tells its outcome.

    Args:
        budget: replaces the run's own limits.
        answer: what a person says to the request that the run waits with.
        laboratory: measures instead of this machine, such as a replay.
        clock: Unix seconds, for the ledger.

    Raises:
        UserError: the run's ledger is broken or held by another process, or the run can't go on.
    """
    with Ledger(run.ledger, clock=clock) as ledger:
        if ledger.recovered:
            progress.note(ledger.recovered)
        finished, started = ledger.find("finished"), ledger.find("run.started")
        if started is None:
            raise UserError(
                f"{run.path}: the run was stopped before it had begun; start a new one with `autotune tune`"
            )
        if finished is not None:
            return Outcome(run, **finished.data)
        options = Options.from_json(started.data["options"])
        widened = [entry.data["budget"] for entry in ledger.of_kind("session")]
        if budget is not None or widened:
            options = replace(options, budget=budget or Budget(**widened[-1]))
        path = Path(started.data["file"])
        deployment = Deployment.model_validate(started.data["deployment"])
        file = DeploymentFile(path, deployment, frozenset(started.data["managed"]))
        playbook = load_playbook(deployment.playbook)
        exploring = ledger.find("approval.request") is None  # what only waits for a person asks neither of these again
        if exploring and digest(playbook.model_dump(mode="json")) != started.data["playbook"]["digest"]:
            raise UserError(f"playbook {deployment.playbook} changed since the run started; start a new run")
        if exploring and started.data["verifiers_digest"] != verifiers_digest():
            raise UserError(
                f"{run.path}: the verifiers' code changed since the run started, and one judge has to judge all of it; "
                "start a new run"
            )
        playbook = playbook.for_engine(engine_of(deployment.target))
        laboratory = laboratory or LiveLaboratory(target_of(deployment, path))
        proposer = _proposer(options, playbook) if exploring else Expert(playbook)
        context = _context(run, file, laboratory, playbook, proposer, options, ledger, progress, observe)
        measured_by = laboratory
        context.effects.once("survey", "survey", lambda: measured_by.survey(file, context.baseline))
        return _drive(replace(context, answer=answer))


def _context(
    run: RunDir,
    file: DeploymentFile,
    laboratory: Laboratory,
    playbook: Playbook,
    proposer: Proposer,
    options: Options,
    ledger: Ledger,
    progress: Progress,
    observe: Observer,
) -> Context:
    return Context(
        run=run,
        file=file,
        laboratory=laboratory,
        space=laboratory.target.knobs,
        baseline=laboratory.target.knobs.resolve(file.deployment.config),
        playbook=playbook,
        proposer=Guarded(proposer),
        effects=Effects(ledger, options.budget, KillSwitch(run.path), observe),
        progress=Discreet(progress),
        commit=options.commit,
        approval=options.approval == "required",
        confirm_anyway=options.again is not None,
    )


def _proposer(options: Options, playbook: Playbook) -> Proposer:
    if options.again is not None:
        return Fixed(options.again.patch, f"as commit {options.again.commit[:12]} has it")
    if options.proposer == "expert":
        return Expert(playbook)
    if options.llm is None:
        raise UserError("the llm proposer needs an endpoint: give --llm-url and --llm-model")
    settings = LlmSettings(
        model=options.llm.model,
        base_url=options.llm.base_url,
        api_key_env=options.llm.api_key_env,
        prices=LlmPrices.model_validate(options.llm.prices) if options.llm.prices is not None else None,
        timeout_s=options.llm.timeout_s,
        max_tokens=options.llm.max_tokens,
    )
    return Llm(settings, playbook)


def _drive(context: Context) -> Outcome:
    """Run the graph to its end, or to where it stops or waits; then leave the target as it was found."""
    run, ledger, effects = context.run, context.ledger, context.effects
    ledger.append("session", {"pid": os.getpid(), "budget": effects.budget.to_json()})
    limit = superstep_limit(effects.budget)
    thread: Any = {"configurable": {"thread_id": run.id}, "recursion_limit": limit}
    with effects.kill_switch.listening(), compiled(run.checkpoints) as graph:
        known = graph.get_state(thread)
        begun: Any = None if known.values and known.next else State()
        said: Any = Command(resume=context.answer.model_dump()) if context.answer is not None else None
        try:
            ended = graph.invoke(
                said if said and known.interrupts else begun, thread, context=context, durability="sync"
            )
            waits = bool(graph.get_state(thread).interrupts)
            if said and waits and "approve" not in known.next and "answered" not in known.next:
                # The run was killed between asking and waiting: only now it waits for what was said.
                ended = graph.invoke(said, thread, context=context, durability="sync")
                waits = bool(graph.get_state(thread).interrupts)
        except Stopped as stopped:
            return Outcome(run, 4, "stopped", f"{stopped} (autotune resume {run.path})")
        except KeyboardInterrupt:
            return Outcome(run, 4, "stopped", f"interrupted; nothing is lost: autotune resume {run.path}")
        finally:
            for put_back in context.target.restore():
                context.progress.note(f"restored: {put_back}")
    State.model_validate({name: value for name, value in ended.items() if name in State.model_fields})
    if waits:
        return Outcome(run, 4, "waiting", _waiting(run, ledger))
    finished = ledger.find("finished")
    assert finished is not None
    return Outcome(run, **finished.data)


def _waiting(run: RunDir, ledger: Ledger) -> str:
    request = ledger.find("approval.request")
    assert request is not None
    asked = request.data
    changes = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in asked["changes"].items())
    *_, last = ledger
    void = f"the answer was void: {last.data['void']}. " if last.kind == "approval.void" else ""
    return (
        f"{void}PASS, and nothing is committed before a person approves {asked['file']}: {changes}. "
        f"autotune approve {run.id} --digest {asked['digest']} (or --reject WHY)"
    )
