"""The start of a run: what the machine can do, what the baseline does, and what the rest will cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.estimate import confirm_launches, seconds_left, too_small
from autotune.harness.judging import judged_trial
from autotune.harness.state import State, update
from autotune.harness.trials import Load, carry_out
from tools.errors import UserError
from tools.measure.floor import Floor
from tools.proposal import Proposal
from tools.redaction import printable, redacted
from tools.targets.spec import ExternalSpec
from tools.targets.target import LaunchFailed
from verifiers.rules.measurement import cache_prefix_hits

__all__ = ["baseline", "calibrate", "survey_budget"]

BASELINE_TRIALS = 2
"Two launches of the same config: the least that shows how much launches differ (A/A)."


def calibrate(state: State, runtime: Runtime[Context]) -> Command[Literal["baseline"]]:
    """Impulse response of the baseline: one at a time for the latency floor, all at once for the throughput ceiling."""
    context = runtime.context
    context.progress.phase("calibrate", "the client itself, against a mock server", None)
    client = context.effects.once("client", "client", lambda: context.laboratory.client_floor().to_json())
    context.progress.note(f"client's floor: {Floor.from_json(client)}")
    context.progress.phase("calibrate", "latency floor and throughput ceiling of the baseline", None)
    context.effects.once("calibrate", "calibration", lambda: _impulse(context), spends=True)
    return Command(goto="baseline")


def _impulse(context: Context) -> dict[str, Any]:
    deployment = context.file.deployment
    log = context.run.logs / "calibrate.log"
    try:
        found = context.laboratory.calibrate(
            deployment, context.baseline, seed=context.search_seed, log=log, on_progress=context.progress.requests
        )
    except LaunchFailed as failed:
        raise _baseline_failed(context, failed.kind, failed.message, log) from None
    return found.to_json()


def baseline(state: State, runtime: Runtime[Context]) -> Command[Literal["baseline", "survey_budget"]]:
    """Measure the unmodified baseline on fresh launches.

    Raises:
        UserError: it doesn't run, or a verifier refuses its measurement; then nothing can be compared with it.
    """
    context = runtime.context
    number = state.launches + 1
    context.progress.phase("baseline", f"launch {number} of {BASELINE_TRIALS}", seconds_left(context))
    unchanged = Proposal({}, "the deployment as it stands", "baseline")
    trial = carry_out(context, f"b{number}", "baseline", "A", unchanged, context.baseline, Load(context.search_seed))
    if trial["failure"]:
        failure = trial["failure"]
        raise _baseline_failed(context, failure["kind"], failure["message"], context.run.logs / f"{trial['id']}.log")
    metric = context.file.deployment.objective.metric
    if metric not in trial["summary"]:
        raise UserError(
            f"{metric} can't be measured on the baseline: {trial['summary'].get('failed', 0):.0f} of "
            f"{trial['requests']} requests failed. Mend the deployment or lower the workload's rate first"
        )
    judgement = context.effects.once(f"judge:{trial['id']}", "judgement", lambda: _judge(context, trial["id"]))
    if judgement["status"] != "PASS":
        refusal = next(v for v in judgement["verdicts"] if v["status"] != "PASS")
        told = f"the baseline can't be trusted ({refusal['rule']}): {refusal['sentence']}"
        spec = context.file.deployment.target
        if refusal["rule"] == cache_prefix_hits.RULE and isinstance(spec, ExternalSpec) and not spec.reset:
            told += "; the same requests are sent more than once: say `reset: true` under target: if we may empty it"
        raise UserError(told, exit_code=2)
    return Command(goto="baseline" if number < BASELINE_TRIALS else "survey_budget", update=update(launches=number))


def _judge(context: Context, trial_id: str) -> dict[str, Any]:
    return {"trial": trial_id, **judged_trial(context, trial_id).to_json()}


def _baseline_failed(context: Context, kind: str, message: str, log: Path) -> UserError:
    return UserError(
        f"the baseline doesn't run ({kind}): {message}\n"
        f"mend config: in {context.file.path}; the server's log ends in:\n{_tail(log)}"
    )


def _tail(log: Path, lines: int = 8) -> str:
    text = redacted(log.read_text(errors="replace")).splitlines()[-lines:] if log.is_file() else []
    return "\n".join(f"  {printable(line)}" for line in text) or "  (nothing)"


def survey_budget(state: State, runtime: Runtime[Context]) -> Command[Literal["decide"]]:
    """Say what the rest will take before it is spent."""
    context = runtime.context
    foreseen = context.effects.once("budget", "budget", lambda: _foresee(context))
    context.progress.note(
        f"budget: up to {foreseen['trials']} trials, then at most {foreseen['confirm_launches']} launches to confirm; "
        f"about {foreseen['seconds'] / 60:.0f} min more, stopped at {foreseen['wall_s'] / 60:.0f} min"
    )
    if (lacking := too_small(context)) is not None:
        context.progress.note(lacking)
    return Command(goto="decide")


def _foresee(context: Context) -> dict[str, Any]:
    budget = context.effects.budget
    return {
        "trials": budget.trials,
        "confirm_launches": confirm_launches(context)[1],
        "seconds": min(budget.wall_s, seconds_left(context) or 0.0),
        "wall_s": budget.wall_s,
    }
