"""Detokenizer: text from tokens as they come, up to a stop string."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as ReadOnlyList

__all__ = ["Detokenizer", "held_back"]


class Detokenizer:
    """The text of one answer, piece by piece. The pieces joined are the answer.

    A character may be spread over several tokens, and a token's text may depend on the one before it. So text is taken
    as the difference of two decodings that begin a little earlier, once it doesn't end within a character (the method
    of Hugging Face's text-generation-inference). Text ends before the stop string that is complete first.
    """

    def __init__(self, decode: Callable[[ReadOnlyList[int]], str], stop: tuple[str, ...] = ()) -> None:
        self._decode = decode
        self._stop = stop
        self._token_ids: list[int] = []
        self._prefix = 0
        "Where decoding begins, so that the context of the next token is right."
        self._read = 0
        "Tokens whose text is out or held back for the stop strings."
        self._held = ""
        self.stopped = False
        "A stop string was found; there is no more text."

    def add(self, token_id: int) -> str:
        """Text that `token_id` completes; empty while a character or a possible stop string is unfinished."""
        self._token_ids.append(token_id)
        before = self._decode(self._token_ids[self._prefix : self._read])
        now = self._decode(self._token_ids[self._prefix :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._prefix, self._read = self._read, len(self._token_ids)
        return self._release(now[len(before) :])

    def finish(self) -> str:
        """What is still held back. Nothing, after a stop string."""
        if self.stopped:
            return ""
        before = self._decode(self._token_ids[self._prefix : self._read])
        rest = self._decode(self._token_ids[self._prefix :])[len(before) :]
        self._read = len(self._token_ids)
        text = self._release(rest)
        text, self._held = text + self._held, ""
        return text

    def _release(self, text: str) -> str:
        text = self._held + text
        # Whichever is complete first: how the text happens to be cut into tokens must not matter.
        found = min(((text.find(s) + len(s), text.find(s)) for s in self._stop if s in text), default=None)
        if found:
            self.stopped, self._held = True, ""
            return text[: found[1]]
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
