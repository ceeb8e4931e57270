"""Conversations: which requests of a log go on from which, and what each conversation shares with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tools.traces.logged import LoggedRequest

__all__ = ["LoggedConversation", "conversations_of", "shared_blocks"]


@dataclass(frozen=True, slots=True)
class LoggedConversation:
    """Requests each of which holds the whole prompt and the answer before it."""

    requests: tuple[LoggedRequest, ...]
    shared: int = 0
    "Leading blocks that other conversations have too; they are whole blocks of the first request's prompt."

    @property
    def start_s(self) -> float:
        return self.requests[0].at_s

    @property
    def shared_tokens(self) -> int:
        return self.shared * self.requests[0].block_tokens

    @property
    def path(self) -> tuple[int, ...]:
        """The shared blocks."""
        return (self.requests[0].blocks or ())[: self.shared]

    def turns(self) -> tuple[tuple[int, int, float], ...]:
        """(new tokens, output tokens, seconds since the answer before) of each request."""
        first = self.requests[0]
        return (
            (first.prompt_tokens - self.shared_tokens, first.output_tokens, 0.0),
            *(
                (
                    request.prompt_tokens - before.prompt_tokens - before.output_tokens,
                    request.output_tokens,
                    _pause_s(before, request),
                )
                for before, request in pairwise(self.requests)
            ),
        )

    def pauses_s(self) -> tuple[float, ...]:
        """Seconds from each answer to the next request."""
        return tuple(_pause_s(before, request) for before, request in pairwise(self.requests))


def conversations_of(requests: Sequence[LoggedRequest], *, linked: bool = True) -> tuple[LoggedConversation, ...]:
    """The conversations of a log, in order of their start. With `linked` false each request is one of its own.

    A request goes on from the latest earlier one whose blocks it extends and whose answer it has room for, unless that
    was answered after it came; where the log has sessions, only within its own, and where it has no blocks the session
    and the lengths decide. Where two requests go on from the same one (a fork: a regenerated answer, parallel agents),
    what both hold becomes a shared prefix instead, so that no sharing is lost.
    """
    chains = _linked(requests) if linked else [[request] for request in requests]
    while True:
        depths = shared_blocks(chains)
        cut = [part for chain, depth in zip(chains, depths, strict=True) for part in _cut(chain, depth)]
        if len(cut) == len(chains):
            break
        chains = cut
    chains_and_depths = sorted(zip(chains, depths, strict=True), key=lambda pair: pair[0][0].at_s)
    return tuple(LoggedConversation(tuple(chain), _room(chain[0], depth)) for chain, depth in chains_and_depths)


def shared_blocks(chains: Sequence[Sequence[LoggedRequest]]) -> list[int]:
    """Per chain, the leading blocks of its longest prompt that stand in another chain too."""
    paths = [chain[-1].blocks or () for chain in chains]
    blocks = np.fromiter((block for path in paths for block in path), dtype=np.int64)
    if not len(blocks):
        return [0] * len(chains)
    # Along a path the number of chains that hold a block never grows, so those that several hold lead it.
    several = np.concatenate([[0], np.cumsum(np.bincount(blocks)[blocks] > 1)])
    ends = np.cumsum([len(path) for path in paths])
    starts = np.concatenate([[0], ends[:-1]])
    depths: list[int] = (several[ends] - several[starts]).tolist()
    return depths


def _linked(requests: Sequence[LoggedRequest]) -> list[list[LoggedRequest]]:
    chains: list[list[LoggedRequest]] = []
    ends: dict[int, int] = {}  # the last block of a chain's last prompt -> the chain
    sessions: dict[str, int] = {}
    for request in requests:
        found = _before(request, chains, ends, sessions)
        if found is None:
            found = len(chains)
            chains.append([request])
        else:
            last = chains[found][-1].blocks
            if last and ends.get(last[-1]) == found:
                del ends[last[-1]]
            chains[found].append(request)
        if request.blocks:
            ends[request.blocks[-1]] = found
        if request.session is not None:
            sessions[request.session] = found
    return chains


def _before(
    request: LoggedRequest, chains: list[list[LoggedRequest]], ends: dict[int, int], sessions: dict[str, int]
) -> int | None:
    """The chain that `request` goes on from."""
    for block in reversed(request.blocks or ()):
        number = ends.get(block)
        if number is None or chains[number][-1].session != request.session:
            continue
        if _follows(chains[number][-1], request):
            return number
    number = sessions.get(request.session) if request.session is not None else None
    # A prompt shorter than a block, or a log without blocks: the session's word has to do.
    if number is not None and not chains[number][-1].blocks and _follows(chains[number][-1], request):
        return number
    return None


def _follows(before: LoggedRequest, request: LoggedRequest) -> bool:
    answered_s = before.at_s + (before.duration_s or 0.0)
    return request.prompt_tokens > before.prompt_tokens + before.output_tokens and request.at_s >= answered_s


def _pause_s(before: LoggedRequest, request: LoggedRequest) -> float:
    return max(request.at_s - before.at_s - (before.duration_s or 0.0), 0.0)


def _cut(chain: list[LoggedRequest], depth: int) -> list[list[LoggedRequest]]:
    """`chain`, its requests that lie wholly within the shared part split off: the rest begins behind that part."""
    if not depth or len(chain) == 1:
        return [chain]
    behind = next((at for at, request in enumerate(chain) if len(request.blocks or ()) > depth), len(chain) - 1)
    return [*([request] for request in chain[:behind]), chain[behind:]]


def _room(first: LoggedRequest, depth: int) -> int:
    """`depth` in whole blocks of `first`, so that at least one token of its own is left."""
    return min(depth, len(first.blocks or ()), (first.prompt_tokens - 1) // first.block_tokens)
