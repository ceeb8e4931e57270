"""Carrying out a trial as an effect: announced, measured, its raw data stored, recorded."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.harness.context import Context
from tools.blobs import fsync_directory
from tools.canonical import canonical_json
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.proposal import Proposal
from tools.service.load_spec import at_load
from tools.service.soak import soaking
from tools.targets.knobs import Config
from tools.trial import TrialResult
from verifiers.faults import HARNESS_FAULTS

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
    What was measured to its end is never measured again: it is on disk before it is recorded. A launch that a fault of
    the harness spoilt is recorded as `fault` and repeated once.
    """
    draft = _Draft(context.run.path / "measured" / f"{trial_id}.json")
    data = context.effects.once(
        f"trial:{trial_id}",
        "trial",
        lambda: _measure(context, draft, trial_id, role, arm, proposal, config, load),
        spends=True,
    )
    draft.remove()
    return data


@dataclass(frozen=True, slots=True)
class _Draft:
    """A trial's record on its way into the ledger."""

    file: Path

    def read(self) -> dict[str, Any] | None:
        """None where there is none, or none that is whole: a disk may lose what its cache held."""
        try:
            found = json.loads(self.file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write(self, data: dict[str, Any]) -> None:
        """It appears whole or not at all, and is on disk before this returns."""
        self.file.parent.mkdir(exist_ok=True)
        part = self.file.with_suffix(".part")
        with part.open("wb") as file:
            file.write(canonical_json(data))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.file)
        fsync_directory(self.file.parent)

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


def _measure(
    context: Context,
    draft: _Draft,
    trial_id: str,
    role: str,
    arm: str,
    proposal: Proposal,
    config: Config,
    load: Load,
) -> dict[str, Any]:
    if (known := draft.read()) is not None:
        return known  # killed between measurement and record: what was measured counts, whatever it was
    deployment = context.file.deployment
    started = time.monotonic()
    result = _launch(context, trial_id, role, config, load)
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
    draft.write(data)
    return data


def _launch(context: Context, trial_id: str, role: str, config: Config, load: Load) -> TrialResult:
    """One launch under its load; a second one where a fault of the harness spoilt the first."""
    while True:
        context.ledger.append(
            "trial.started", {"id": trial_id, "role": role, "config": dict(config.values), "seed": load.seed}
        )
        result = _launch_once(context, trial_id, config, load)
        failure = result.failure
        spoilt = any(entry.data["trial"] == trial_id for entry in context.ledger.of_kind("fault"))
        if failure is None or failure.kind not in HARNESS_FAULTS or spoilt:
            return result
        context.ledger.append("fault", {"trial": trial_id, "kind": failure.kind, "message": failure.message})
        context.progress.note(f"{trial_id}: {failure.kind}, which isn't the config's doing; it is launched once more")
        context.effects.kill_switch.check()
        context.effects.budget.check(context.ledger)


def _launch_once(context: Context, trial_id: str, config: Config, load: Load) -> TrialResult:
    deployment = context.file.deployment
    spec = soaking(deployment.workload) if load.soak else at_load(deployment.workload, load.factor)
    return context.laboratory.trial(
        config,
        materialise(spec, load.seed),
        log=context.run.logs / f"{trial_id}.log",
        ready_timeout_s=deployment.ready_timeout_s,
        evals=context.evals if load.with_evals else None,
        on_progress=context.progress.requests,
    )
