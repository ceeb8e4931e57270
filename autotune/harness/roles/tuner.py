"""The tuner: looks for a better config, one typed action after the other."""

from __future__ import annotations

from autotune.harness.nodes.explore import decide, judge_trial, preflight, trial
from autotune.harness.roles.role import Role

__all__ = ["TUNER"]

TUNER = Role(
    "tuner",
    "asks the proposer and the search what to try, tries what passes the preflight, and judges it",
    (decide, preflight, trial, judge_trial),
)
