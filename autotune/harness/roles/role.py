"""Role: a part of the graph with one duty. Inside it the nodes follow one another; out of it leads one way only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, get_args, get_type_hints

from langgraph.graph import END
from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.state import State, update

__all__ = ["BETWEEN", "Node", "Role", "ends_of"]

BETWEEN: Final = "monitor"
"""The node that a role's work is handed to when it goes on elsewhere."""


class Node(Protocol):
    """A node's function."""

    __name__: str

    def __call__(self, state: State, runtime: Runtime[Context]) -> Command[Any]: ...


@dataclass(frozen=True, slots=True)
class Role:
    """Nodes of one duty. They are plain nodes of one graph, not a graph of their own.

    A subgraph keeps checkpoints under a namespace of its own and is begun anew as one node of its parent: a run that is
    killed in it would go on by two checkpoints that have to agree. Plain nodes have one.
    """

    name: str
    duty: str
    "What it does, in a clause."
    nodes: tuple[Node, ...]

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node.__name__ for node in self.nodes)

    def bound(self, node: Node) -> Node:
        """`node`, but where it would go on in another role, the monitor and the supervisor come first.

        What it asked for is in the state then.
        """
        mine = {*self.node_names, END}

        def step(state: State, runtime: Runtime[Context]) -> Command[Any]:
            command = node(state, runtime)
            if command.goto in mine:
                return command
            return Command(goto=BETWEEN, update={**(command.update or {}), **update(asked=command.goto)})

        return step

    def destinations(self, node: Node) -> tuple[str, ...]:
        """Where `bound(node)` can lead."""
        mine = {*self.node_names, END}
        return tuple(dict.fromkeys(name if name in mine else BETWEEN for name in ends_of(node)))


def ends_of(node: Node) -> tuple[str, ...]:
    """The nodes that `node` may go on to, as its return type `Command[Literal[...]]` has them."""
    (literal,) = get_args(get_type_hints(node)["return"])
    return tuple(map(str, get_args(literal)))
