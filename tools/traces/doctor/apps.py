"""Applications: which prompts of a log were written by the same program, wherever their common parts stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from tools.traces.doctor.layout import Prompt, Words, pieces

__all__ = ["App", "apps_of"]

_SHINGLE = 8
_LOOKED_AT = 4000
"Pieces of each prompt; a beginning that long says whose it is."
_SAMPLED = 4
_IN_COMMON = 5
"Sampled shingles: about 20 + 8 pieces of common content."
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FEWEST = 4
"Requests of an application of which anything can be said."


@dataclass(frozen=True, slots=True)
class App:
    """The prompts of one program, as indices into the log's."""

    members: tuple[int, ...]
    reference: int
    "The member whose content is the most common: the one to compare the others with."


def apps_of(prompts: Sequence[Prompt]) -> tuple[App, ...]:
    """The applications with at least 4 requests, the largest first.

    Two prompts are of one application if they have about 28 tokens of content in common, blanks aside, in any place: a
    sample of shingles (Broder 1997), each prompt compared with the first of every application found so far.
    """
    sketches = [_sketch(prompt) for prompt in prompts]
    leaders: list[tuple[str, set[int]]] = []
    members: list[list[int]] = []
    for index, (prompt, sketch) in enumerate(zip(prompts, sketches, strict=True)):
        common = [len(sketch & other) if root == prompt.root else 0 for root, other in leaders]
        best = max(range(len(common)), key=common.__getitem__, default=None)
        if best is not None and common[best] >= _IN_COMMON:
            members[best].append(index)
        else:
            leaders.append((prompt.root, sketch))
            members.append([index])
    found = [App(tuple(group), _most_common(group, sketches)) for group in members if len(group) >= _FEWEST]
    return tuple(sorted(found, key=lambda app: -len(app.members)))


def _most_common(group: Sequence[int], sketches: Sequence[set[int]]) -> int:
    seen = Counter(shingle for index in group for shingle in sketches[index])

    def commonness(index: int) -> float:
        return sum(seen[shingle] for shingle in sketches[index]) / (len(sketches[index]) + 1)

    return max(group, key=commonness)


def _sketch(prompt: Prompt) -> set[int]:
    words = Words.of(pieces(prompt)[:_LOOKED_AT]).texts
    if len(words) < _SHINGLE:
        return set()
    # Python's own hash of a text differs from process to process, and a diagnosis must not.
    codes = np.array([crc32(word.encode()) for word in words], dtype=np.uint64)
    shingles = np.zeros(len(codes) - _SHINGLE + 1, dtype=np.uint64)
    for place in range(_SHINGLE):
        shingles = shingles * _ODD + codes[place : place + len(shingles)]
    shingles ^= shingles >> np.uint64(29)
    return set(shingles[shingles % np.uint64(_SAMPLED) == 0].tolist())
