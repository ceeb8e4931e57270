"""Who runs things: the langgraph graph, its state, budgets, kill switch, and the effects it may have on the world."""

from autotune.harness.budget import Budget, parse_duration
from autotune.harness.prepare import Options
from autotune.harness.progress import Progress, Silent
from autotune.harness.run import Outcome, resume, start
from autotune.harness.rundir import RunDir

__all__ = ["Budget", "Options", "Outcome", "Progress", "RunDir", "Silent", "parse_duration", "resume", "start"]
