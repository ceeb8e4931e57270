"""Attempts: earlier confirmations of the same change, in the runs beside this one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autotune.harness.rundir import RunDir
from verifiers import Attempt
from verifiers.rules.plan.attempts_bounded import WITHIN_S

__all__ = ["earlier_attempts"]


def earlier_attempts(
    run: RunDir, deployment: str, baseline_digest: str, candidate_digest: str, now: float
) -> tuple[Attempt, ...]:
    """Confirmations of `candidate_digest` against `baseline_digest` for `deployment` that other runs began within a
    day before `now` (Unix seconds), oldest first.

    A confirmation counts from its first launch on, whether or not it came to a verdict. A ledger that was damaged
    counts too, by the lines that can still be read: damage must not make room for another attempt.
    """
    found = []
    for ledger in run.path.parent.glob("*/ledger.jsonl"):
        if ledger.parent.name != run.id:
            attempt = _attempt(ledger, deployment, baseline_digest, candidate_digest)
            if attempt is not None and now - attempt.at <= WITHIN_S:
                found.append(attempt)
    return tuple(sorted(found, key=lambda attempt: attempt.at))


def _attempt(ledger: Path, deployment: str, baseline_digest: str, candidate_digest: str) -> Attempt | None:
    begun_at: float | None = None
    named = planned = False
    verdict = "none"
    for kind, at, data in _entries(ledger):
        if kind == "run.started":
            named = _get(data, "deployment", "name") == deployment
        elif kind == "plan":
            planned = (_get(data, "plan", "baseline_digest"), _get(data, "plan", "candidate_digest")) == (
                baseline_digest,
                candidate_digest,
            )
        elif kind == "trial.started" and planned and begun_at is None and data.get("role") == "confirm":
            begun_at = at
        elif kind == "verdict" and planned:
            verdict = str(data.get("status", verdict))
    return Attempt(ledger.parent.name, begun_at, verdict) if named and begun_at is not None else None


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
