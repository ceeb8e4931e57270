"""Profile: what the run has recorded of the machine, its limits and where the time goes, for a proposer that asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.view import ProfileSubject
from autotune.harness.context import Context
from autotune.harness.history import Tried
from tools.measure.calibrate import Calibration

__all__ = ["profile"]

_KEPT_BACK = frozenset({"seed", "spec_digest"})
_TIMES = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "p95_ttft_ms", "p95_e2el_ms")


def profile(context: Context) -> dict[ProfileSubject, Mapping[str, float | str]]:
    """Every subject that the ledger holds something about. Figures and short words only."""
    survey, calibrated = context.ledger.find("survey"), context.ledger.find("calibrate")
    found: dict[ProfileSubject, Mapping[str, float | str]] = {}
    if survey is not None:
        found["machine"] = _machine(survey.data)
        found["roofline"] = _roofline(survey.data)
    if calibrated is not None:
        calibration = Calibration.from_json(calibrated.data)
        found["calibration"] = _figures(calibration.to_json())
        found["time"] = _time(context, calibration)
    return {subject: figures for subject, figures in found.items() if figures}


def _machine(survey: Mapping[str, Any]) -> dict[str, float | str]:
    told = _figures(survey.get("facts", {})) | _figures(survey.get("hardware", {}))
    flags = " ".join(survey.get("hardware", {}).get("cpu_flags", ()))
    needed = survey.get("memory_need_bytes")
    return told | ({"cpu_flags": flags} if flags else {}) | ({"baseline_needs_bytes": needed} if needed else {})


def _roofline(survey: Mapping[str, Any]) -> dict[str, float | str]:
    """What no config can undercut (floors) or exceed (ceilings), and what the machine reads and computes."""
    told = _figures(survey.get("roofline", {}))
    told |= {f"floor_{name}": value for name, value in _figures(survey.get("floors", {})).items()}
    physics = survey.get("physics", {})
    told |= {f"ceiling_{name}": value for name, value in _figures(physics.get("ceilings", {})).items()}
    return told | _figures({name: value for name, value in physics.items() if name == "ridge_flop_per_byte"})


def _time(context: Context, alone: Calibration) -> dict[str, float | str]:
    """The baseline and the best trial beside a request alone on the baseline: what is beyond that is waiting and
    sharing; and the seconds of their launches."""
    history = context.history
    told: dict[str, float | str] = {"alone_ttft_ms": alone.floor_ttft_ms, "alone_e2el_ms": alone.floor_e2el_ms}
    if alone.floor_tpot_ms is not None:
        told["alone_tpot_ms"] = alone.floor_tpot_ms
    for name, trial in (("baseline", next(iter(history.baselines), None)), ("best", history.incumbent)):
        told |= _of_trial(name, trial, alone) if trial is not None else {}
    return told


def _of_trial(name: str, trial: Tried, alone: Calibration) -> dict[str, float | str]:
    told: dict[str, float | str] = {f"{name}_{m}": trial.summary[m] for m in _TIMES if m in trial.summary}
    if "mean_ttft_ms" in trial.summary:
        told[f"{name}_waiting_for_first_token_ms"] = max(0.0, trial.summary["mean_ttft_ms"] - alone.floor_ttft_ms)
    return told | {f"{name}_trial_seconds": trial.wall_s}


def _figures(data: Mapping[str, Any]) -> dict[str, float | str]:
    """The numbers and words of `data`; nothing nested, and no seed or digest, which a proposer has no use for."""
    return {
        name: value
        for name, value in data.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool) and name not in _KEPT_BACK
    }
