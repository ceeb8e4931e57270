"""`autotune eval`: what a deployment says, and how far the agents that tune it can be trusted."""

from __future__ import annotations

import typer

from autotune.commands.eval_agents import agents
from autotune.commands.eval_deployment import evaluate

__all__ = ["eval_group"]

eval_group = typer.Typer(help="Evaluate what a deployment says, or the agents that tune it.", no_args_is_help=True)
eval_group.command("deployment")(evaluate)
eval_group.command("agents")(agents)
