"""Faults of the harness or the machine: kinds of failure that say nothing about the config that was to be launched."""

from __future__ import annotations

__all__ = ["HARNESS_FAULTS"]

HARNESS_FAULTS = frozenset({"port_taken", "model_missing"})
"""Of `tools.targets.target.FailureKind`. `unreachable` isn't among them: a server that runs and doesn't answer may well
hang for its config's sake."""
