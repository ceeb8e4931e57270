"""Reading: what the readers of all formats share: a block table, a tokenizer, and a tally of what they skip."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from tools.traces.blocks import BLOCK_TOKENS, BlockTable
from tools.traces.logged import BadLine
from tools.traces.prompt import Segment, joined

__all__ = ["Encode", "Reading", "pieces_of"]

Encode = Callable[[str], Sequence[int]]
"""A tokenizer: text to token ids."""

_EXAMPLES = 5
_IDS_END = 2**32

# As byte-pair vocabularies cut before they merge: a blank belongs to the word after it; long words have several tokens.
_PIECES = re.compile(r" ?[^\W\d_]{1,8}| ?\d{1,3}| ?[^\w\s]|\s|_")


def pieces_of(text: str) -> list[str]:
    """`text` in pieces of about one token; joined they are `text` again. For where there is no tokenizer."""
    return _PIECES.findall(text)


class Reading:
    """The state of one pass over one log."""

    def __init__(self, encode: Encode | None = None) -> None:
        self.table = BlockTable()
        self.encode = encode
        self.pieces_per_token = 1.0
        "How many pieces of text make a token in this log; readers set it from the log's beginning."
        self.bad = 0
        self.bad_examples: list[str] = []
        self.left_out: Counter[str] = Counter()
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    def bad_line(self, number: int, why: str) -> None:
        self.bad += 1
        if len(self.bad_examples) < _EXAMPLES:
            self.bad_examples.append(f"line {number}: {why}")

    def prompt(
        self, segments: tuple[Segment, ...], tokens: int | None, *, root: str = ""
    ) -> tuple[int, tuple[int, ...]]:
        """Tokens of a prompt and the numbers of its blocks; `tokens` is the server's own count where the log has it.

        `root` names what else two requests must have in common to share a cache: the model, an adapter.
        """
        text = joined(segments)
        if self.encode is not None:
            ids = self.encode(text)
            return tokens or len(ids), self.table.tokens(ids, root=root)[: tokens // BLOCK_TOKENS if tokens else None]
        pieces = pieces_of(text)
        count = tokens or self._tokens(pieces)
        per_block = max(1, round(BLOCK_TOKENS * self.pieces_per_token))
        return count, self.table.pieces(pieces, per_block, root=root)[: count // BLOCK_TOKENS]

    def prompt_ids(self, ids: Sequence[int], *, root: str = "") -> tuple[int, ...]:
        """The numbers of the blocks of a prompt that the log holds as token ids.

        Raises:
            BadLine: those aren't token ids.
        """
        if not all(type(token) is int and 0 <= token < _IDS_END for token in ids):
            raise BadLine("expected token ids as whole numbers from 0 on, found others")
        return self.table.tokens(ids, root=root)

    def answer_tokens(self, text: str) -> int:
        """Tokens of an answer that the log holds as text."""
        if not text:
            return 0
        return len(self.encode(text)) if self.encode is not None else self._tokens(pieces_of(text))

    def _tokens(self, pieces: Sequence[str]) -> int:
        return max(1, round(len(pieces) / self.pieces_per_token))
