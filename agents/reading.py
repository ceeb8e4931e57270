"""Reading: what `inspect` and `profile` are answered with. Data from the view alone, bounded."""

from __future__ import annotations

from typing import Any

from agents.actions import Inspect, Profile
from agents.untrusted import last_lines, one_line
from agents.view import View

__all__ = ["read"]

_LOG_LINES = 6


def read(action: Inspect | Profile, view: View) -> dict[str, Any]:
    """What `action` asks for; what isn't recorded is said to be absent."""
    if isinstance(action, Profile):
        found = view.profile.get(action.subject)
        return {"profile": action.subject, **(_rounded(found) if found else {"nothing": "not recorded in this run"})}
    trial = view.trial(action.trial)
    assert trial is not None, "check_action has seen to it"
    told: dict[str, Any] = {"trial": trial.id, "outcome": trial.outcome}
    if action.subject == "log":
        return {**told, "end_of_log": last_lines(trial.log, _LOG_LINES) or "no log is kept of a trial that ran"}
    if action.subject == "metrics":
        return {**told, "metrics": _rounded(trial.metrics)}
    config = {**view.baseline.values, **trial.patch}
    return {**told, "config": config, "by": trial.source, "reason": one_line(trial.reason)}


def _rounded(named: Any) -> dict[str, Any]:
    """Figures in four digits, words in one line."""
    return {n: one_line(value) if isinstance(value, str) else float(f"{value:.4g}") for n, value in named.items()}
