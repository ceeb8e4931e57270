"""Sharing: the tree of common prefixes, and what a prefix cache of a given size would hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.traces.logged import LoggedRequest

__all__ = ["SharedPrefix", "heaviest", "infinite_hit_rate", "lru_curve", "prefix_tree"]

_SAMPLED_ACCESSES = 120_000
_ODD = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: multiplying by it scatters neighbours (Knuth, TAOCP 6.4)


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A node of the sharing tree: a run of tokens that the same conversations begin with, after what `parent` holds."""

    tokens: int
    parent: int
    "Index of the node above; -1 at a root."
    conversations: int
    "That begin with it."


def prefix_tree(
    paths: Sequence[Sequence[int]], block_tokens: int, *, counts: NDArray[np.int64] | None = None
) -> tuple[tuple[SharedPrefix, ...], list[int]]:
    """The compressed tree of `paths` (each a chain of block numbers), and each path's deepest node (-1: empty path).

    Runs of blocks that the same paths hold are one node; parents stand before their children. `counts` says for each
    block how many conversations hold it, where those are more than `paths`: a run then ends where that changes.
    """
    held: Sequence[int] | NDArray[np.int64]
    if counts is not None:
        held = counts
    else:
        blocks = [np.asarray(path, dtype=np.int64) for path in paths if len(path)]
        held = np.bincount(np.concatenate(blocks)) if blocks else ()
    stops = {path[-1] for path in paths if path}
    nodes: list[SharedPrefix] = []
    known: dict[int, int] = {}  # a run's last block -> its node
    ends = []
    for path in paths:
        parent, run = -1, 0
        for place, block in enumerate(path):
            run += 1
            last = place + 1 == len(path)
            if not last and block not in stops and held[path[place + 1]] == held[block]:
                continue
            if block not in known:
                known[block] = len(nodes)
                nodes.append(SharedPrefix(run * block_tokens, parent, int(held[block])))
            parent, run = known[block], 0
        ends.append(parent)
    return tuple(nodes), ends


def infinite_hit_rate(requests: Sequence[LoggedRequest]) -> float | None:
    """Share of all prompt tokens that a prefix cache of unlimited size would hit, 0 to 1; None without blocks.

    Whole blocks of prompts only, each first appearance a miss: that doesn't depend on order or timing. (An engine that
    caches answers too hits a little more on the turns that follow.)
    """
    known: set[int] = set()
    hits = total = 0
    told = False
    for request in requests:
        total += request.prompt_tokens
        if request.blocks is None:
            continue
        told = True
        # A known block's parents are known, so the number of hits is the number of blocks that were there before.
        before = len(known)
        known.update(request.blocks)
        hits += (len(request.blocks) - (len(known) - before)) * request.block_tokens
    return hits / total if told and total else None


def lru_curve(requests: Sequence[LoggedRequest], points: int = 12) -> tuple[tuple[int, float], ...]:
    """(cache size in tokens, hit rate) of a least-recently-used cache of whole blocks, from small to all.

    Stack distances (Mattson 1970) over a spatial sample of the blocks (SHARDS, Waldspurger 2015). A request touches its
    last block first, so that a block is never forgotten before those that build on it.
    """
    block_tokens = requests[0].block_tokens
    accesses = np.fromiter((block for request in requests for block in reversed(request.blocks or ())), dtype=np.int64)
    if not len(accesses):
        return ()
    distinct = len(np.unique(accesses))
    rate = min(1.0, _SAMPLED_ACCESSES / len(accesses))
    if rate < 1.0:
        scattered = (accesses.astype(np.uint64) * np.uint64(_ODD)) >> np.uint64(40)
        accesses = accesses[scattered < rate * 2**24]
    distances = _stack_distances(accesses.tolist())
    hits = np.sort(np.asarray([distance for distance in distances if distance >= 0])) / rate
    sizes = np.unique(np.geomspace(max(distinct / 1024, 1), distinct, points).round().astype(int))
    # A sample's popular blocks may be too many or too few; its limit is known exactly (SHARDS-adj, section 3.3 there).
    limit = infinite_hit_rate(requests)
    assert limit is not None
    return tuple(
        (int(size) * block_tokens, limit * float(np.searchsorted(hits, size, side="right")) / max(len(hits), 1))
        for size in sizes
    )


def _stack_distances(accesses: Sequence[int]) -> list[int]:
    """For each access, how many distinct blocks were touched since the last one to the same block, itself included; -1
    the first time. A Fenwick tree over the moments of last touches."""
    n = len(accesses)
    tree = [0] * (n + 1)
    last: dict[int, int] = {}
    distances = []
    for moment, block in enumerate(accesses, start=1):
        before = last.get(block)
        if before is None:
            distances.append(-1)
        else:
            younger = len(last)
            at = before
            while at:
                younger -= tree[at]
                at &= at - 1
            distances.append(younger + 1)
            at = before
            while at <= n:
                tree[at] -= 1
                at += at & -at
        last[block] = moment
        at = moment
        while at <= n:
            tree[at] += 1
            at += at & -at
    return distances


def heaviest(nodes: Sequence[SharedPrefix], count: int) -> list[tuple[int, SharedPrefix]]:
    """The nodes that save most tokens (all but one reading each), heaviest first, with their index."""
    order = sorted(range(len(nodes)), key=lambda at: -nodes[at].tokens * (nodes[at].conversations - 1))
    return [(at, nodes[at]) for at in order[:count]]
