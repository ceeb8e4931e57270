"""Detokenizer: text from tokens as they come, up to a stop string."""

from __future__ import annotations

import codecs

from engine.tokenizer import ModelTokenizer

__all__ = ["Detokenizer", "held_back"]


class Detokenizer:
    """The text of one answer, piece by piece. The pieces joined are the answer.

    A character may be spread over several tokens. In a byte-level vocabulary text is the tokens' bytes; in others a
    token's text may depend on the one before it, and is the difference of two decodings that begin a little earlier,
    once it doesn't end within a character (the method of Hugging Face's text-generation-inference).
    """

    def __init__(
        self,
        tokenizer: ModelTokenizer,
        stop: tuple[str, ...] = (),
        *,
        include_stop: bool = False,
        min_tokens: int = 0,
        skip_special_tokens: bool = True,
    ) -> None:
        """Text ends before the string of `stop` that is complete first, or after it with `include_stop`.

        Text of the first `min_tokens` tokens isn't searched.
        """
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._stop, self._include_stop, self._min_tokens = stop, include_stop, min_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace").decode if tokenizer.joins_bytes else None
        self._token_ids: list[int] = []
        self._prefix = 0
        "Where decoding begins, so that the context of the next token is right."
        self._read = 0
        "Tokens whose text is out or held back for the stop strings."
        self._held = ""
        self._count = 0
        self.stop_string: str | None = None
        "The stop string that was found; there is no more text."

    def add(self, token_id: int) -> str:
        """Text that `token_id` completes; empty while a character or a possible stop string is unfinished."""
        if self._utf8 is None:
            text = self._add_by_difference(token_id)
        else:
            text = "" if token_id in self._skipped else self._utf8(self._tokenizer.bytes_of(token_id))
        if not self._stop:
            return text
        self._count += 1
        return text if self._count <= self._min_tokens else self._release(text)

    def finish(self) -> str:
        """What is still held back. Nothing, after a stop string."""
        if self.stop_string is not None:
            return ""
        rest = self._rest() if self._utf8 is None else self._utf8(b"", True)
        text = self._release(rest)
        text, self._held = text + self._held, ""
        return text

    def _add_by_difference(self, token_id: int) -> str:
        self._token_ids.append(token_id)
        before, now = self._decode(self._prefix, self._read), self._decode(self._prefix)
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._prefix, self._read = self._read, len(self._token_ids)
        return now[len(before) :]

    def _rest(self) -> str:
        before, now = self._decode(self._prefix, self._read), self._decode(self._prefix)
        self._read = len(self._token_ids)
        return now[len(before) :]

    def _decode(self, start: int, end: int | None = None) -> str:
        ids = [token_id for token_id in self._token_ids[start:end] if token_id not in self._skipped]
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _release(self, text: str) -> str:
        text = self._held + text
        # Whichever is complete first: how the text happens to be cut into tokens must not matter.
        found = min(((text.find(s) + len(s), text.find(s), s) for s in self._stop if s in text), default=None)
        if found:
            end, start, self.stop_string = found
            self._held = ""
            return text[: end if self._include_stop else start]
        keep = held_back(text, self._stop)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def held_back(text: str, stop: tuple[str, ...]) -> int:
    """Characters at the end of `text` that may be the beginning of a stop string."""
    longest = max((len(s) for s in stop), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(s.startswith(text[-length:]) for s in stop):
            return length
    return 0
