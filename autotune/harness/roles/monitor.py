"""The monitor: looks at the health of the run itself before the next role begins, and ends what can't end well."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.history import History
from autotune.harness.killswitch import Stopped
from autotune.harness.roles.role import BETWEEN
from autotune.harness.roles.supervisor import SUPERVISOR
from autotune.harness.state import State
from tools.ledger import LedgerView
from tools.targets.knobs import Config
from verifiers.rules.measurement import soundness_doubts

__all__ = ["MONITOR", "another_machine", "baseline_moved", "client_ill", "disk_full", "monitor"]

MONITOR: Final = BETWEEN

_LEAST_FREE_BYTES = 256 << 20
"Raw records of a long run take some 100 MB, and a full disk in mid-commit is worse than a pause."
_DOUBTFUL_IN_A_ROW = 3
"Trials of which the load generator spoilt one after another: what is measured next would be spoilt too."
_BANDS = 3.0
"Times the A/A band of the baseline's first launches: two launches tell the band only roughly."


def monitor(state: State, runtime: Runtime[Context]) -> Command[Literal["supervisor"]]:
    """Look at the kill switch, the disk, the machine, the client and the baseline.

    Raises:
        Stopped: going on would waste what is left of the budget; the sentence says why, and `resume` goes on.
    """
    context = runtime.context
    context.effects.kill_switch.check()
    ailment = disk_full(context.run.path) or another_machine(context) or client_ill(context.ledger)
    if ailment:
        context.ledger.append("health", {"before": state.asked or "calibrate", "ailment": ailment})
        raise Stopped(f"health: {ailment}")
    if moved := baseline_moved(context.history, context.baseline, context.search_seed):
        context.progress.note(f"health: {moved}")
    return Command(goto=SUPERVISOR)


def disk_full(folder: Path, least_bytes: int = _LEAST_FREE_BYTES) -> str:
    """What is wrong where the run's records go, a sentence; empty where there is room."""
    free = shutil.disk_usage(folder).free
    if free >= least_bytes:
        return ""
    return f"{free >> 20} MiB are free in {folder}, and records need {least_bytes >> 20}; free some and resume"


def another_machine(context: Context) -> str:
    """Two fingerprints can't be compared: every rule that needs both arms would refuse what is measured from now on."""
    survey, now = context.ledger.find("survey"), context.laboratory.environment()
    assert survey is not None
    then = survey.data["environment"]
    if then == now:
        return ""
    return (
        f"hardware or software is another than when the run began (fingerprint {now[:12]}, then {then[:12]}); "
        "put it back and resume, or start a new run"
    )


def client_ill(ledger: LedgerView) -> str:
    """The last trials were all refused because the load generator, not the server, was what they measured."""
    latest = [entry for entry in ledger.of_kind("judgement") if entry.data["verdicts"]][-_DOUBTFUL_IN_A_ROW:]
    doubts = [
        verdict["sentence"]
        for entry in latest
        for verdict in entry.data["verdicts"]
        if verdict["rule"] == soundness_doubts.RULE and verdict["status"] != "PASS"
    ]
    if len(doubts) < _DOUBTFUL_IN_A_ROW:
        return ""
    return f"the last {len(doubts)} trials can't be believed ({doubts[-1]}); quieten the machine and resume"


def baseline_moved(history: History, baseline: Config, seed: int) -> str:
    """How far the baseline has moved since the run began, where that is beyond its own A/A band.

    Of its launches under the search's own load (`seed`); where none was made since, there is nothing to compare. It is
    no reason to stop: the confirmation's blocks hold both arms, so that drift can't favour one.
    """
    first, later = (
        [
            value
            for t in history.tried
            if t.config == baseline and t.seed == seed and (t.role == "baseline") == begins
            if (value := history.objective(t)) is not None
        ]
        for begins in (True, False)
    )
    if len(first) < 2 or not later or fmean(first) == 0:
        return ""
    band = (max(first) - min(first)) / fmean(first)
    moved = fmean(later) / fmean(first) - 1
    if abs(moved) <= _BANDS * band:
        return ""
    return f"the baseline has moved by {moved:+.1%} since it was measured first; launches differ by {band:.1%}"
