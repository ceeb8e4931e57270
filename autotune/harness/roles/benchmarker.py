"""The benchmarker: measures what is, and measures anew what was found."""

from __future__ import annotations

from autotune.harness.nodes.confirm import confirm, plan
from autotune.harness.nodes.prove import drill, prove
from autotune.harness.nodes.survey import baseline, calibrate, survey_budget
from autotune.harness.roles.role import Role

__all__ = ["BENCHMARKER"]

BENCHMARKER = Role(
    "benchmarker",
    "measures the baseline, and later the best candidate against it, on fresh launches that were planned before",
    (calibrate, baseline, survey_budget, plan, confirm, prove, drill),
)
