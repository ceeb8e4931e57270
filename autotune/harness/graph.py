"""The graph of the main job: what follows what. What each step does stands in `autotune.harness.nodes`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from autotune.harness.budget import Budget
from autotune.harness.context import Context
from autotune.harness.nodes.confirm import confirm, plan, verdict
from autotune.harness.nodes.explore import decide, judge_trial, preflight, trial
from autotune.harness.nodes.prove import drill, prove
from autotune.harness.nodes.publish import finish, publish
from autotune.harness.nodes.survey import baseline, calibrate, survey_budget
from autotune.harness.state import State

__all__ = ["compiled", "superstep_limit"]

_NODES = (
    calibrate,
    baseline,
    survey_budget,
    decide,
    preflight,
    trial,
    judge_trial,
    plan,
    confirm,
    prove,
    drill,
    verdict,
    publish,
    finish,
)


def superstep_limit(budget: Budget) -> int:
    """Supersteps of one run: four a turn, and more for the rest than it can need. The budget ends it long before."""
    return 4 * budget.turns + 360


@contextmanager
def compiled(checkpoints: Path) -> Iterator[CompiledStateGraph[State, Context, Any, Any]]:
    """The graph with its SQLite checkpointer. Each superstep is durable before the next begins."""
    graph: StateGraph[State, Context, Any, Any] = StateGraph(State, context_schema=Context)
    for node in _NODES:
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "calibrate")
    with closing(sqlite3.connect(checkpoints, check_same_thread=False)) as connection:
        yield graph.compile(checkpointer=SqliteSaver(connection))
