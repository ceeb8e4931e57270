"""Guarded: a proposer as foreign code. What it returns is taken apart and built anew, or it is out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any

from agents.actions import ActionError, parse_action
from agents.proposer import Message, Proposer, ProposerFailed, Turn
from agents.usage import Usage
from agents.view import View
from tools.errors import UserError

__all__ = ["Guarded"]

_MESSAGES, _CHARS = 64, 400_000
"Most messages of one turn's transcript, and characters in all of them: what is recorded stays readable."
_REASON_CHARS = 300


@dataclass(frozen=True)
class Guarded:
    """Asks `proposer` and believes nothing about what comes back."""

    proposer: Proposer

    @property
    def name(self) -> str:
        return self.proposer.name

    def turn(self, view: View) -> Turn:
        """The proposer's turn, its action validated by the schema and its costs no less than nothing.

        Raises:
            ProposerFailed: it said so, it raised, or what it returned is no turn; it costs what it says it cost.
            UserError: the playbook can't be worked out for this deployment.
        """
        with _Border():
            said = self.proposer.turn(view)
            usage = _usage(said.usage)
        with _Border(usage):
            return Turn(parse_action(_plain(said.action)), usage, _transcript(said.transcript))


@dataclass(frozen=True, slots=True)
class _Border:
    """Whatever foreign code raises becomes a ProposerFailed; a word to the user and an interrupt pass."""

    usage: Usage = field(default_factory=Usage)
    "What is known by now of its costs."

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, ActionError):
            raise ProposerFailed(str(error)[:_REASON_CHARS], self.usage) from None
        if isinstance(error, ProposerFailed):
            with _Border(self.usage):  # its figures and its words are foreign too
                failed = ProposerFailed(str(error)[:_REASON_CHARS], _usage(error.usage), _transcript(error.transcript))
            raise failed from None
        if isinstance(error, Exception) and not isinstance(error, UserError):
            told = f"it raised {type(error).__name__}: {str(error)[:_REASON_CHARS]}"
            raise ProposerFailed(told, self.usage) from None


def _plain(action: Any) -> Any:
    """The action as data. One that was built around its own checks is checked again for that."""
    return action.model_dump(mode="python", warnings=False)


def _usage(usage: Usage) -> Usage:
    counts = {each.name: getattr(usage, each.name) for each in fields(Usage) if each.name not in ("estimated", "usd")}
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise ValueError(f"expected counts of tokens and calls, found {usage!r}")
    if usage.usd is not None and not (type(usage.usd) in (int, float) and 0 <= usage.usd < math.inf):
        raise ValueError(f"expected a cost in dollars or none, found {usage.usd!r}")
    return Usage(**counts, estimated=bool(usage.estimated), usd=usage.usd)


def _transcript(transcript: tuple[Message, ...]) -> tuple[Message, ...]:
    plain = tuple({"role": str(message["role"]), "content": str(message["content"])} for message in transcript)
    if len(plain) > _MESSAGES or sum(len(message["content"]) for message in plain) > _CHARS:
        raise ValueError(f"a transcript of {len(plain)} messages is more than is recorded")
    return plain
