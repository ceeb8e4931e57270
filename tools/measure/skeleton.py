"""Skeleton: a workload without its words. Who shares which prefix, how long each turn is, when it comes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Conversation", "Prefix", "Skeleton", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation."""

    new_tokens: int
    "Prompt tokens that stand in no earlier turn and in no shared prefix."
    output_tokens: int
    gap_s: float = 0.0
    "From the end of the answer before until this turn is due; 0 for the first turn."


@dataclass(frozen=True, slots=True)
class Prefix:
    """A node of the sharing tree: what every conversation below it begins with, after what `parent` begins with."""

    tokens: int
    parent: int = -1
    "Index of the node above; -1 at a root."


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that build on each other: the prompt of each is the prompt and the answer before it, and new tokens."""

    turns: tuple[Turn, ...]
    prefix: int = -1
    "Index of the deepest node of the sharing tree that its prompts begin with; -1 for none."
    start_s: float | None = None
    "When its first turn is due, in seconds from the start; None in a closed loop."


@dataclass(frozen=True, slots=True)
class Skeleton:
    """Conversations in order of their start, and the tree of the prefixes that they share."""

    prefixes: tuple[Prefix, ...]
    conversations: tuple[Conversation, ...]

    def path(self, prefix: int) -> tuple[int, ...]:
        """Indices of the nodes from the root down to `prefix`; empty for -1."""
        nodes: list[int] = []
        while prefix >= 0:
            nodes.append(prefix)
            prefix = self.prefixes[prefix].parent
        return tuple(reversed(nodes))

    def path_tokens(self, prefix: int) -> int:
        """Tokens from the root down to `prefix`."""
        return sum(self.prefixes[node].tokens for node in self.path(prefix))
