"""The graph of the main job: which role owns which nodes. What each node does stands in `autotune.harness.nodes`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from autotune.harness.budget import Budget
from autotune.harness.context import Context
from autotune.harness.roles import MONITOR, ROLES, SUPERVISOR, monitor, supervisor
from autotune.harness.state import State

__all__ = ["compiled", "drawn", "superstep_limit"]

Graph = CompiledStateGraph[State, Context, Any, Any]


def superstep_limit(budget: Budget) -> int:
    """Supersteps of one run: four a turn, and more for the rest than it can need. The budget ends it long before."""
    return 4 * budget.turns + 360


@contextmanager
def compiled(checkpoints: Path) -> Iterator[Graph]:
    """The graph with its SQLite checkpointer. Each superstep is durable before the next begins.

    A checkpoint is plain data: no type but the graph's own is revived from it, whatever the environment says.
    """
    with closing(sqlite3.connect(checkpoints, check_same_thread=False)) as connection:
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        yield _graph().compile(checkpointer=SqliteSaver(connection, serde=plain))


def drawn() -> str:
    """The compiled graph as Mermaid text, its nodes in boxes by role; `docs/graph.md` shows it."""
    lines = ["graph TD"]
    for role in ROLES:
        lines += [f"    subgraph {role.name}", *(f"        {name}" for name in role.node_names), "    end"]
    ways = sorted((edge.source, edge.target) for edge in _graph().compile().get_graph().edges)
    lines += [f"    {source.strip('_')} --> {target.strip('_').replace('end', 'ended')}" for source, target in ways]
    return "\n".join(lines) + "\n"


def _graph() -> StateGraph[State, Context, Any, Any]:
    """Every way from one role to another leads through the monitor and the supervisor. No node is tried again by the
    graph: what can be repeated is repeated by whoever knows what it costs (the client of an LLM, a trial)."""
    graph: StateGraph[State, Context, Any, Any] = StateGraph(State, context_schema=Context)
    graph.add_node(MONITOR, monitor)
    graph.add_node(SUPERVISOR, supervisor)
    for role in ROLES:
        for node in role.nodes:
            graph.add_node(node.__name__, role.bound(node), destinations=role.destinations(node))
    graph.add_edge(START, MONITOR)
    return graph
