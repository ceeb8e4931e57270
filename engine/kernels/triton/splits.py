"""Splits: into how many parts the context of a sequence with one new token is cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.kernels.triton.paged import pad_to_power_of_2

__all__ = ["MOST_SPLITS", "Splits", "choose_splits"]

MOST_SPLITS = 64
MOST_PROGRAMS = 16384
"""Those without work return at once, but they are launched; an estimate that no GPU has confirmed yet."""
PROGRAMS_PER_PROCESSOR = 4
SHORTEST_PART, LONGEST_PART = 128, 512
"""Tokens. Less isn't worth a merge; more leaves processors idle when the longest sequence comes last."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Into how many parts a context is cut at most, and the tokens below which a part isn't cut again."""

    count: int
    shortest: int


@lru_cache(maxsize=4096)
def choose_splits(sequences: int, num_kv_heads: int, max_context: int, processors: int) -> Splits:
    """The same for every step with these shapes, whatever the contexts are: a CUDA graph can't choose anew.

    Few sequences are cut finely, so that all multiprocessors have work; many are cut only where one of them is long.
    """
    programs = sequences * num_kv_heads
    share = LONGEST_PART * programs // (PROGRAMS_PER_PROCESSOR * processors)
    shortest = min(LONGEST_PART, max(SHORTEST_PART, pad_to_power_of_2(max(1, share))))
    count = min(-(-max_context // shortest), MOST_SPLITS, max(1, MOST_PROGRAMS // programs))
    return Splits(max(1, count), shortest)
