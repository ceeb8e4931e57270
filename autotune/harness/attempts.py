"""Attempts: earlier confirmations of the same change, in the runs beside this one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autotune.harness.rundir import RunDir
from verifiers import Attempt
from verifiers.faults import HARNESS_FAULTS
from verifiers.rules.plan.attempts_bounded import WITHIN_S

__all__ = ["earlier_attempts"]


def earlier_attempts(
    run: RunDir, deployment: str, baseline_digest: str, changed: frozenset[str], now: float
) -> tuple[Attempt, ...]:
    """Confirmations of a change of the knobs `changed`, whatever their values, against `baseline_digest` for
    `deployment` that other runs began within a day before `now` (Unix seconds by the ledgers' clock), oldest first.

    A value that is off by one is another config and the same idea, so it is another attempt. A confirmation counts from
    its first launch on, whether or not it came to a verdict; not where a fault of the harness spoilt it, for then it
    couldn't have passed. A ledger that was damaged counts too, by the lines that can still be read: damage must not
    make room for another attempt.
    """
    found = []
    for ledger in run.path.parent.glob("*/ledger.jsonl"):
        if ledger.parent.name != run.id:
            attempt = _attempt(ledger, deployment, baseline_digest, changed)
            if attempt is not None and now - attempt.at <= WITHIN_S:
                found.append(attempt)
    return tuple(sorted(found, key=lambda attempt: attempt.at))


def _attempt(ledger: Path, deployment: str, baseline_digest: str, changed: frozenset[str]) -> Attempt | None:
    begun_at: float | None = None
    named = planned = spoilt = False
    verdict = "none"
    standing: Any = None
    for kind, at, data in _entries(ledger):
        if kind == "run.started":
            named = _get(data, "deployment", "name") == deployment
        elif kind == "trial.started" and data.get("role") == "baseline":
            standing = data.get("config")
        elif kind == "plan":
            same = _changed(data.get("patch"), standing) == changed
            planned = same and _get(data, "plan", "baseline_digest") == baseline_digest
        elif kind == "trial.started" and planned and begun_at is None and data.get("role") == "confirm":
            begun_at = at
        elif kind == "trial" and data.get("role") == "confirm":
            spoilt = spoilt or _get(data, "failure", "kind") in HARNESS_FAULTS
        elif kind == "verdict" and planned:
            verdict = str(data.get("status", verdict))
    counts = named and not (spoilt and verdict == "ERROR")
    return Attempt(ledger.parent.name, begun_at, verdict) if counts and begun_at is not None else None


def _changed(patch: Any, standing: Any) -> frozenset[str]:
    """Knobs that `patch` changes; one that it sets to what stands there already is no change."""
    before = standing if isinstance(standing, dict) else {}
    after = patch if isinstance(patch, dict) else {}
    return frozenset(name for name, value in after.items() if name not in before or before[name] != value)


def _entries(ledger: Path) -> Iterator[tuple[str, float, Mapping[str, Any]]]:
    """Kind, time and data of every line that can be read."""
    try:
        lines = ledger.read_bytes().splitlines()
    except OSError:
        return  # another user's run, or one that is just being removed
    for line in lines:
        try:
            entry = json.loads(line)
            kind, at, data = str(entry["kind"]), float(entry["time"]), entry["data"]
        except (ValueError, TypeError, KeyError):
            continue
        if isinstance(data, dict):
            yield kind, at, data


def _get(data: Mapping[str, Any], *path: str) -> Any:
    found: Any = data
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
