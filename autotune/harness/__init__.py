"""Who runs things: the langgraph graph, its state, budgets, kill switch, and the effects it may have on the world."""

from autotune.harness.budget import Budget
from autotune.harness.prepare import Options
from autotune.harness.progress import Progress, Silent
from autotune.harness.run import Outcome, resume, start
from autotune.harness.rundir import RunDir

__all__ = ["Budget", "Options", "Outcome", "Progress", "RunDir", "Silent", "resume", "start"]
