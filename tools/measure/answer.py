"""Answer: what one streamed chat completion said, collected chunk by chunk and checked before it may count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import orjson

from tools.measure.records import TokenSource
from tools.measure.sse import SseDecoder, SseError

__all__ = ["Answer", "AnswerFault", "quoted"]

_ABORTED = ("abort", "aborted", "cancelled", "error")
_TEXT_FIELDS = ("content", "reasoning", "reasoning_content", "refusal")


class AnswerFault(Exception):
    """An answer that may not count as one. `str()` starts with a stable slug: `error_payload: ...`."""

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(f"{slug}: {detail}")


_Chunk = tuple[float, str, tuple[int, ...] | None, int | None]
"""A chunk with a choice in it, as received: when (seconds), its text, its token ids, the output tokens so far by
running usage. A plain tuple, since a load makes a hundred thousand of them a second."""


@dataclass
class Answer:
    """A sink for an answer's bytes, with the moment they arrived; `verify` at the end. It reads no clock."""

    first_chunk_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    "`[DONE]` was received, or a fault: nothing after it is read."
    fault: AnswerFault | None = None
    _decoder: SseDecoder = field(default_factory=SseDecoder)
    _chunks: list[_Chunk] = field(default_factory=list)
    _prompt_ids: int | None = None

    def feed(self, received: bytes, at_s: float) -> None:
        """Take what one read gave; all events in it arrived at `at_s` (seconds). What is wrong with it is kept as
        `fault`: not an event stream, not JSON, or an error in place of an answer."""
        if self.done:
            return
        try:
            # Nearly every read is one whole event of one line.
            if self._decoder.is_one_event(received):
                self._take(received[6:-2], at_s)
                return
            for event in self._decoder.feed(received):
                self._take(event, at_s)
                if self.done:
                    return
        except SseError as error:
            self._refuse(AnswerFault("bad_stream", str(error)))
        except AnswerFault as fault:
            self._refuse(fault)

    def verify(self, max_tokens: int) -> None:
        """Refuse an answer that isn't complete, or whose token counts don't agree with each other.

        Raises:
            AnswerFault: names what is missing.
        """
        if self.fault is not None:
            raise self.fault
        if not self._chunks:
            raise AnswerFault("empty_choices", "expected a choice in the stream, found none")
        if self.finish_reason is None:
            raise AnswerFault("no_finish_reason", "expected a finish_reason before the end of the stream")
        if self.finish_reason in _ABORTED:
            raise AnswerFault("aborted", f"the server gave the answer up: finish_reason {self.finish_reason}")
        if not self.done:
            raise AnswerFault("no_done", "expected `data: [DONE]` at the end of the stream")
        if self.output_tokens is None or self.prompt_tokens is None:
            raise AnswerFault("no_usage", "expected usage in the stream (stream_options.include_usage was asked for)")
        if self.output_tokens == 0 or not self._arrivals:
            raise AnswerFault("zero_tokens", f"expected tokens, found none; usage says {self.output_tokens}")
        if (self.cached_tokens or 0) > self.prompt_tokens:
            raise AnswerFault("bad_usage", f"{self.cached_tokens} cached of {self.prompt_tokens} prompt tokens")
        if self._prompt_ids is not None and self._prompt_ids != self.prompt_tokens:
            raise AnswerFault(
                "token_count_mismatch", f"{self._prompt_ids} prompt token ids, usage says {self.prompt_tokens}"
            )
        self._verify_output_tokens(self.output_tokens)
        if self.output_tokens > max_tokens:
            raise AnswerFault("too_many_tokens", f"asked for {max_tokens}, usage says {self.output_tokens}")

    def token_times(self) -> list[float]:
        """Arrival of each token-bearing chunk, in seconds."""
        return [at_s for at_s, _ in self._arrivals]

    def token_counts(self) -> tuple[int, ...]:
        """Tokens per token-bearing chunk; empty where only their total is known and it isn't one a chunk."""
        counts = tuple([tokens for _, tokens in self._arrivals])
        known = self._evidence != "chunks" or self.output_tokens in (None, sum(counts))
        return counts if known else ()

    def token_ids(self) -> tuple[int, ...]:
        """Ids of all output tokens; empty where the server doesn't tell them."""
        if self._evidence != "token_ids":
            return ()
        return tuple([token for _, _, ids, _ in self._chunks for token in ids or ()])

    def output(self) -> tuple[int | None, TokenSource]:
        """Output tokens and where the count comes from; of an answer without usage, as many as arrived."""
        if self.output_tokens is not None:
            return self.output_tokens, "usage"
        return sum(tokens for _, tokens in self._arrivals) or None, self._evidence

    def _refuse(self, fault: AnswerFault) -> None:
        self.fault = fault
        self.done = True

    def _take(self, event: bytes, at_s: float) -> None:
        try:
            payload = orjson.loads(event)
        except orjson.JSONDecodeError:
            if event.strip() == b"[DONE]":
                self.done = True
                return
            payload = None
        if self.first_chunk_s is None:
            self.first_chunk_s = at_s
        if type(payload) is not dict:
            raise _unreadable(event)
        told = payload.get
        if told("error") or told("object") == "error":
            raise AnswerFault("error_payload", _shown(event))
        usage = told("usage")
        if usage:
            self._take_usage(usage)
        choices = told("choices")
        if not choices:
            return  # the usage chunk at the end has none
        choice = choices[0] if type(choices) is list else None
        if type(choice) is not dict:
            raise AnswerFault("bad_chunk", f"expected a list of choices, found {_shown(event)}")
        chunks = self._chunks
        if not chunks:
            self._take_prompt_ids(choice.get("prompt_token_ids") or told("prompt_token_ids"))
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reason = str(reason.get("type") if type(reason) is dict else reason)
        ids = choice.get("token_ids")
        chunks.append((at_s, _text(choice), None if ids is None else _ids(ids), self.output_tokens if usage else None))

    def _take_usage(self, usage: Any) -> None:
        try:
            details = usage.get("prompt_tokens_details")
            self.prompt_tokens = _count(usage["prompt_tokens"])
            self.output_tokens = _count(usage["completion_tokens"])
            if details and details.get("cached_tokens") is not None:
                self.cached_tokens = _count(details["cached_tokens"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise AnswerFault("bad_usage", f"expected token counts, found {quoted(repr(usage))}") from None

    def _take_prompt_ids(self, ids: Any) -> None:
        if isinstance(ids, list):
            self._prompt_ids = len(ids)

    # Worked out once, when the answer is over.

    @cached_property
    def _evidence(self) -> TokenSource:
        """The best that tells how many tokens a chunk carries."""
        if any(ids is not None for _, _, ids, _ in self._chunks):
            return "token_ids"
        totals = [total for _, text, _, total in self._chunks if text or total is not None]
        # Some servers put their only usage into the last chunk: that tells nothing of the chunks before.
        return "usage" if totals and None not in totals else "chunks"

    @cached_property
    def _arrivals(self) -> list[tuple[float, int]]:
        """(seconds, tokens) of each token-bearing chunk."""
        if self._evidence == "token_ids":
            return [(at_s, len(ids)) for at_s, _, ids, _ in self._chunks if ids]
        if self._evidence == "usage":
            totals = [(at_s, total) for at_s, _, _, total in self._chunks if total is not None]
            steps = pairwise([(0.0, 0), *totals])
            return [(at_s, total - before) for (_, before), (at_s, total) in steps if total > before]
        return _without_early_blanks([(at_s, text) for at_s, text, _, _ in self._chunks if text])

    def _verify_output_tokens(self, usage_tokens: int) -> None:
        evidence = self._evidence
        counted = sum(tokens for _, tokens in self._arrivals)
        # A chunk may carry several tokens, but no token comes in two chunks.
        wrong = counted > usage_tokens if evidence == "chunks" else counted != usage_tokens
        if wrong:
            unit = "chunks with text" if evidence == "chunks" else f"tokens by {evidence}"
            raise AnswerFault(
                "duplicate_chunk" if self._repeats() else "token_count_mismatch",
                f"{counted} {unit}, usage says {usage_tokens} tokens",
            )
        if evidence == "chunks":
            return
        first_token_s = self._arrivals[0][0]
        if any(text and at_s < first_token_s for at_s, text, _, _ in self._chunks):
            raise AnswerFault("early_chunk", "text was sent before the first token was generated")

    def _repeats(self) -> bool:
        """Whether a chunk came twice. Two equal tokens in a row look like that too where neither ids nor running usage
        are told, so this only puts a name to counts that are wrong."""
        return any(here[1] and here[1:] == there[1:] for here, there in pairwise(self._chunks))


def _without_early_blanks(said: list[tuple[float, str]]) -> list[tuple[float, int]]:
    """One token a chunk. Blank chunks at the start don't stop the clock of the first token: a server can send a space
    before it has computed anything. They are counted with the first chunk that says something."""
    if not said:
        return []
    blanks = next((place for place, (_, text) in enumerate(said) if text.strip()), len(said) - 1)
    return [(said[blanks][0], blanks + 1), *((at_s, 1) for at_s, _ in said[blanks + 1 :])]


def _text(choice: Mapping[str, Any]) -> str:
    """Everything a person or a tool could read in this chunk."""
    delta = choice.get("delta")
    if type(delta) is not dict:
        return str(choice.get("text") or "")
    content = delta.get("content")
    if len(delta) == 1 and type(content) is str:
        return content  # nearly every chunk
    text = "".join(str(delta.get(name) or "") for name in _TEXT_FIELDS)
    calls = delta.get("tool_calls") or delta.get("function_call")
    return text + (quoted(repr(calls)) if calls else "")


def _ids(value: Any) -> tuple[int, ...]:
    if isinstance(value, list) and all(type(token) is int for token in value):
        return tuple(value)
    raise AnswerFault("bad_chunk", f"expected a list of token ids, found {quoted(repr(value))}")


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"not a count: {value!r}")
    return value


def _unreadable(event: bytes) -> AnswerFault:
    try:
        event.decode("utf-8")
    except UnicodeDecodeError as error:
        return AnswerFault(
            "bad_stream", f"expected UTF-8, found byte {event[error.start]:#04x} at {error.start} of an event"
        )
    return AnswerFault("bad_json", f"expected a JSON object in an event, found {_shown(event)}")


def _shown(event: bytes) -> str:
    return quoted(event[:1000].decode("utf-8", errors="replace"))


def quoted(text: str) -> str:
    """At most 200 characters of a server's words, on one line and without control characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[:200])
    return line + ("…" if len(text) > 200 else "")
