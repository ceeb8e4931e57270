"""Carrying out a trial as an effect: announced, measured, its raw data stored, recorded."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from autotune.harness.context import Context
from tools.canonical import canonical_json
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.proposal import Proposal
from tools.service.load_spec import at_load
from tools.service.soak import soaking
from tools.targets.knobs import Config

__all__ = ["Load", "carry_out"]


@dataclass(frozen=True, slots=True)
class Load:
    """What a trial is loaded with, and what is asked of it besides."""

    seed: int
    "Of the workload."
    factor: float = 1.0
    "Offered load as a share of the deployment's own."
    block: int | None = None
    "Of the confirmation."
    with_evals: bool = False
    soak: bool = False
    "A burst, then more than the promised load, in place of the deployment's own."


def carry_out(
    context: Context, trial_id: str, role: str, arm: str, proposal: Proposal, config: Config, load: Load
) -> dict[str, Any]:
    """The recorded trial `trial_id`; launches and measures it if the ledger doesn't hold it yet.

    A `trial.started` entry goes first, so that a launch that a crash cut short stays visible beside its repetition.
    What was measured to its end is never measured again: it is on disk before it is recorded.
    """
    return context.effects.once(
        f"trial:{trial_id}",
        "trial",
        lambda: _measure(context, trial_id, role, arm, proposal, config, load),
        spends=True,
    )


def _measure(
    context: Context, trial_id: str, role: str, arm: str, proposal: Proposal, config: Config, load: Load
) -> dict[str, Any]:
    finished = context.run.path / "measured" / f"{trial_id}.json"
    if finished.is_file():
        # Killed between measurement and record: what was measured counts, whatever it was.
        return dict(json.loads(finished.read_text()))
    deployment = context.file.deployment
    context.ledger.append(
        "trial.started", {"id": trial_id, "role": role, "config": dict(config.values), "seed": load.seed}
    )
    started = time.monotonic()
    result = context.laboratory.trial(
        config,
        materialise(
            soaking(deployment.workload) if load.soak else at_load(deployment.workload, load.factor), load.seed
        ),
        log=context.run.logs / f"{trial_id}.log",
        ready_timeout_s=deployment.ready_timeout_s,
        evals=context.evals if load.with_evals else None,
        on_progress=context.progress.requests,
    )
    raw = summary = None
    if result.measurement is not None:
        evals = result.evals.to_json() if result.evals else None
        raw = context.ledger.put_blob({"measurement": result.measurement.to_json(), "evals": evals})
        summary = summarise(result.measurement, deployment.slo)
    failure = result.failure
    data = {
        "id": trial_id,
        "role": role,
        "arm": arm,
        "proposal": proposal.to_json(),
        "config": dict(config.values),
        "config_digest": config.digest,
        "seed": load.seed,
        "load_factor": load.factor,
        "block": load.block,
        "environment": context.laboratory.environment(),
        "resources": {**context.laboratory.resources(), **result.resources},
        "requests": result.measurement.offered if result.measurement else 0,
        "ready_s": result.ready_s,
        "wall_s": time.monotonic() - started,
        "raw_blob": raw,
        "summary": summary or {},
        "failure": {"kind": failure.kind, "message": failure.message, "log_tail": failure.log_tail}
        if failure
        else None,
    }
    finished.parent.mkdir(exist_ok=True)
    draft = finished.with_suffix(".part")
    draft.write_bytes(canonical_json(data))
    draft.replace(finished)
    return data
