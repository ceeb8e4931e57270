"""Layout: prompts as chunks of pieces, so that parts can be moved, and the hit rate that a layout has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tools.traces.blocks import BLOCK_TOKENS, BlockTable
from tools.traces.prompt import Segment
from tools.traces.reading import pieces_of

__all__ = ["MOVED", "Chunk", "Prompt", "Words", "cached_pieces", "chunked", "chunked_ids", "pieces"]

# After a line and the empty ones that follow it, and between the objects of a list in one line.
_BOUNDARY = re.compile(r"(?<=\n)(?![^\S\n]*\n)|(?<=\},)(?=\{)|(?<=\}, )(?=\{)")
MOVED = "moved"
"""Kind of a chunk that a remedy put at a prompt's end: a part of no message."""

_ID_WINDOW = 4
_ID_CHUNK = 16
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A line, a tool definition, or a run of token ids: what may stand in another order, or be written another way."""

    segment: int
    "Number of the prompt's segment that it is a part of."
    kind: str
    "Of the segment: tool, a role, prompt, ids."
    pieces: tuple[str, ...]
    "About a token each; token ids are pieces of their own."


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's prompt. `root` is what it must have in common with another to share a cache with it (its model)."""

    root: str
    chunks: tuple[Chunk, ...]
    ids: bool
    "Whether the pieces are token ids: nothing can be said of their looks."


def chunked(segments: Sequence[Segment], root: str) -> Prompt:
    """A prompt that the log holds as text."""
    chunks = []
    for number, segment in enumerate(segments):
        parts = [segment.text] if segment.kind == "tool" else _BOUNDARY.split(segment.text)
        if segment.kind != "prompt":
            parts = [f"<{segment.kind}>\n", *parts, "\n"] if segment.kind != "tool" else [segment.text + "\n"]
        chunks += [Chunk(number, segment.kind, tuple(pieces_of(part))) for part in parts if part]
    return Prompt(root, tuple(chunks), ids=False)


def chunked_ids(ids: Sequence[int], root: str) -> Prompt:
    """A prompt that the log holds as token ids, cut where their contents say so: equal stretches have equal cuts,
    wherever they stand (Muthitacharoen 2001, LBFS)."""
    codes = np.asarray(ids, dtype=np.uint64)
    rolling = np.zeros(max(len(codes) - _ID_WINDOW + 1, 0), dtype=np.uint64)
    for place in range(_ID_WINDOW):
        rolling = (rolling + codes[place : place + len(rolling)] + np.uint64(1)) * _ODD
    ends = (np.flatnonzero((rolling >> np.uint64(32)) % np.uint64(_ID_CHUNK) == 0) + _ID_WINDOW).tolist()
    texts = [f" {token}" for token in ids]
    bounds = [0, *ends, len(ids)]
    parts = (texts[start:end] for start, end in pairwise(bounds) if start < end)
    return Prompt(root, tuple(Chunk(0, "ids", tuple(part)) for part in parts), ids=True)


def pieces(prompt: Prompt) -> list[str]:
    """The whole prompt, piece by piece."""
    return [piece for chunk in prompt.chunks for piece in chunk.pieces]


@dataclass(frozen=True, slots=True)
class Words:
    """The pieces that aren't blank, stripped."""

    texts: list[str]
    places: list[int]
    "Of each among all pieces."

    @classmethod
    def of(cls, given: Sequence[str]) -> Words:
        kept = [(text, at) for at, piece in enumerate(given) if (text := piece.strip())]
        return cls([text for text, _ in kept], [at for _, at in kept])

    def __len__(self) -> int:
        return len(self.texts)


def cached_pieces(prompts: Sequence[Prompt]) -> tuple[int, int]:
    """(pieces that an unlimited prefix cache would hit, pieces in all), in blocks of 16 pieces."""
    table, known, hits, total = BlockTable(), set[int](), 0, 0
    for prompt in prompts:
        parts = pieces(prompt)
        path = table.pieces(parts, BLOCK_TOKENS, root=prompt.root)
        before = len(known)
        known.update(path)
        hits += (len(path) - (len(known) - before)) * BLOCK_TOKENS
        total += len(parts)
    return hits, total
