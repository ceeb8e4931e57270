"""Choice: one of the answers to a request, its tokens turned into text as they come."""

from __future__ import annotations

import time
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass

from engine.delta import Delta
from engine.detokenizer import Detokenizer
from engine.errors import RequestRefused
from engine.sampling import SamplingParams
from engine.server.link import Answer
from engine.server.pieces import Piece
from engine.server.tool_calls import ToolCallParser
from engine.tokenizer import ModelTokenizer

__all__ = ["Choice", "Prompt", "joined"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be continued; its text, where it came as text, and its tokens."""

    text: str | None
    token_ids: ReadOnlyList[int]


class Choice:
    """Follows one answer. Everything it says of itself is for the usage and the request log."""

    def __init__(
        self,
        index: int,
        prompt: Prompt,
        params: SamplingParams,
        answer: Answer,
        tokenizer: ModelTokenizer,
        detokenizer: Detokenizer,
        *,
        include_stop: bool = False,
        echo: bool = False,
        silent: bool = False,
        parser: ToolCallParser | None = None,
    ) -> None:
        """`echo`: the text begins with the prompt's. `silent`: no token was asked for, and the one that comes is not
        part of the answer."""
        self.index, self.prompt, self.answer = index, prompt, answer
        self.num_cached_tokens = 0
        self.token_ids: list[int] = []
        self.first_token_s = self.last_token_s = 0.0
        "On the monotonic clock."
        self.finish_reason: str | None = None
        self._params = params
        self._tokenizer, self._detokenizer = tokenizer, detokenizer
        self._include_stop, self._echo, self._silent = include_stop, echo, silent
        self._parser = parser
        self._begun = False

    def take(self, delta: Delta) -> Piece:
        """The piece that a step adds. After the one with a finish reason there is no more.

        Raises:
            RequestRefused: the engine gave up: 504 at the deadline, 503 where it ends, 500 where it failed.
        """
        self.last_token_s = time.monotonic()
        piece = Piece("", delta.token_ids, delta.finish_reason, None, delta.logprobs)
        if not self._begun:
            self._begin(piece, delta)
        if delta.finish_reason in ("deadline", "abort", "error"):
            self.finish_reason = delta.finish_reason
            raise given_up(delta.finish_reason)
        if self._silent:
            piece.token_ids, piece.logprobs, piece.finish_reason = (), (), "length"
        else:
            self._read(piece)
        self.token_ids += piece.token_ids
        if piece.finish_reason:
            self.finish_reason = piece.finish_reason
        if self._parser is not None:
            self._parse(piece, self._parser)
        return piece

    def _begin(self, piece: Piece, delta: Delta) -> None:
        self._begun = True
        self.first_token_s = self.last_token_s
        self.num_cached_tokens = delta.num_cached_tokens
        piece.prompt_ids, piece.prompt_logprobs = self.prompt.token_ids, delta.prompt_logprobs
        if self._echo:
            known = self.prompt.text
            piece.text = (
                self._tokenizer.decode(self.prompt.token_ids, skip_special_tokens=False) if known is None else known
            )

    def _read(self, piece: Piece) -> None:
        """Add the text of the piece's tokens, up to a stop string."""
        detokenizer, text = self._detokenizer, piece.text
        for count, token in enumerate(piece.token_ids, 1):
            if piece.finish_reason == "stop" and count == len(piece.token_ids):
                text += self._read_end(piece, token)
                break
            text += detokenizer.add(token)
            if detokenizer.stop_string is not None:
                piece.token_ids, piece.logprobs = piece.token_ids[:count], piece.logprobs[:count]
                piece.finish_reason = "stop"
                self.answer.end("stop")
                break
        if piece.finish_reason:
            text += detokenizer.finish()
        if detokenizer.stop_string is not None:
            piece.finish_reason, piece.stop_reason = "stop", detokenizer.stop_string
        piece.text = text

    def _read_end(self, piece: Piece, token: int) -> str:
        """The last token is no text, unless it is a stop token that was to be included."""
        if token not in self._params.stop_token_ids:
            return ""
        piece.stop_reason = token
        return self._detokenizer.add(token) if self._include_stop else ""

    def _parse(self, piece: Piece, parser: ToolCallParser) -> None:
        piece.deltas = parser.feed(piece.text, last=piece.finish_reason is not None)
        if piece.finish_reason == "stop" and parser.num_calls:
            piece.finish_reason = self.finish_reason = "tool_calls"


def given_up(reason: str) -> RequestRefused:
    if reason == "deadline":
        return RequestRefused("the deadline (deadline_s) has passed", status=504, code="deadline_exceeded")
    if reason == "error":
        sentence = "the model said something that is no number; its weights or the request may be at fault"
        return RequestRefused(sentence, status=500, code="corrupted")
    return RequestRefused("the engine has given the request up; send it again", status=503, code="aborted")


def joined(pieces: ReadOnlyList[Piece]) -> Piece:
    """All of a choice as one piece."""
    first, last = pieces[0], pieces[-1]
    return Piece(
        "".join(piece.text for piece in pieces),
        tuple(token for piece in pieces for token in piece.token_ids),
        last.finish_reason,
        last.stop_reason,
        tuple(known for piece in pieces for known in piece.logprobs),
        first.prompt_logprobs,
        first.prompt_ids,
        None if first.deltas is None else [delta for piece in pieces for delta in piece.deltas or ()],
    )
