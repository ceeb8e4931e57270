"""Proposer: what chooses the next action, and what its choosing cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agents.actions import Action
from agents.usage import Usage
from agents.view import View

__all__ = ["Message", "Proposer", "ProposerFailed", "Turn", "Usage"]

Message = Mapping[str, str]
"""`{"role": ..., "content": ...}`, as the chat API has it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One action, what it cost, and all that was said for it; an expert that needs no LLM says and costs nothing."""

    action: Action
    usage: Usage = field(default_factory=Usage)
    transcript: tuple[Message, ...] = ()


class ProposerFailed(Exception):
    """A proposer that can't answer. The harness goes on without it, by search; what it cost is counted all the same."""

    def __init__(self, message: str, usage: Usage, transcript: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.usage = usage
        self.transcript = tuple(transcript)


class Proposer(Protocol):
    """Chooses one action from what it is shown, and keeps no memory of its own.

    The answer depends on the view alone, so that a run that was killed goes on as if it hadn't been. An LLM can't
    promise the same answer twice; its action is in the ledger before it takes effect, and is read from there.
    """

    @property
    def name(self) -> str: ...

    def turn(self, view: View) -> Turn:
        """The next action.

        Raises:
            ProposerFailed: no valid action could be had.
            UserError: the playbook can't be worked out for this deployment.
        """
        ...
