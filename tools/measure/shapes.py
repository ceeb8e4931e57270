"""Shapes: conversations as they were in a log, their lengths and pauses and who shares which prefix, without a word."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.measure.skeleton import Prefix, Turn

__all__ = ["ConversationShape", "PrefixShape", "Shapes"]

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Gap = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PrefixShape(_Strict):
    """A node of the sharing tree; `parent` is an index into the same list, -1 at a root."""

    tokens: Tokens
    parent: int = Field(default=-1, ge=-1)


class ConversationShape(_Strict):
    """One conversation: the deepest shared prefix it begins with, and per turn its new prompt tokens, its output tokens
    and the seconds since the answer before."""

    prefix: int = Field(default=-1, ge=-1)
    turns: tuple[tuple[Annotated[int, Field(ge=1)], Tokens, Gap], ...] = Field(min_length=1)

    def drawn(self) -> tuple[Turn, ...]:
        return tuple(Turn(new, output, gap if index else 0.0) for index, (new, output, gap) in enumerate(self.turns))


class Shapes(_Strict):
    """What `workload describe` keeps of a log. Each conversation stands for equally many of the log's."""

    prefixes: tuple[PrefixShape, ...] = ()
    conversations: tuple[ConversationShape, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _a_tree(self) -> Shapes:
        for index, node in enumerate(self.prefixes):
            if node.parent >= index:
                raise ValueError(f"expected parents before their children, found prefix {index} under {node.parent}")
        for index, conversation in enumerate(self.conversations):
            if conversation.prefix >= len(self.prefixes):
                raise ValueError(
                    f"conversation {index} begins with prefix {conversation.prefix}, of {len(self.prefixes)} there are"
                )
        return self

    @property
    def mean_turns(self) -> float:
        return sum(len(shape.turns) for shape in self.conversations) / len(self.conversations)

    def tree(self) -> tuple[Prefix, ...]:
        return tuple(Prefix(node.tokens, node.parent) for node in self.prefixes)
