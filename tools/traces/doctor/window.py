"""Window: a history that is cut at the beginning with every turn, so that no turn begins as the last one did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tools.traces.doctor.layout import MOVED, Chunk, Prompt

__all__ = ["Window", "window_of"]

_FIXED = ("tool", "system", "developer")

Message = tuple[Chunk, ...]


@dataclass(frozen=True)
class Window:
    """Requests whose history is an earlier request's without its first messages."""

    slid: dict[int, tuple[int, int]]
    "Request -> the one before it in its conversation, and how many of that one's messages it lost."
    length: int
    "Messages that are kept, as a rule."
    position: int
    "Where the history begins, in pieces, at the least."

    def mended(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """The same prompts with histories that are cut a window's length at a time: they grow from one window to two,
        and only then lose their beginning."""
        wholes: dict[int, tuple[Message, ...]] = {}
        mended = []
        for index, prompt in enumerate(prompts):
            fixed, history, moved = _split(prompt)
            if index in self.slid:
                before, _ = self.slid[index]
                known = wholes.get(before) or _split(prompts[before])[1]
                overlap = _overlap(known, history)
                wholes[index] = (*known, *history[overlap:])
                lost = len(wholes[index]) - len(history)
                history = wholes[index][lost // self.length * self.length :]
            mended.append(replace(prompt, chunks=tuple(c for part in (*fixed, *history, *moved) for c in part)))
        return mended


def window_of(prompts: Sequence[Prompt]) -> Window | None:
    """The sliding window in `prompts` (in order of arrival), or None.

    A request slid if its history begins inside an earlier one's with at least two messages in common, and that one's
    own beginning is gone.
    """
    inside: dict[tuple[Message, Message], tuple[int, int]] = {}  # two neighbours -> latest request, their place in it
    slid: dict[int, tuple[int, int]] = {}
    histories = [_split(prompt)[1] for prompt in prompts]
    for index, history in enumerate(histories):
        if len(history) < 2:
            continue
        found = inside.get((history[0], history[1]))
        if found is not None and found[1] > 0:
            before, place = found
            tail = histories[before][place:]
            if tail == history[: len(tail)] and len(history) > len(tail):
                slid[index] = before, place
        for place, pair in enumerate(pairwise(history)):
            inside[pair] = index, place
    if not slid:
        return None
    lengths = sorted(len(histories[index]) for index in slid)
    positions = (sum(len(chunk.pieces) for part in _split(prompts[index])[0] for chunk in part) for index in slid)
    return Window(slid, max(lengths[len(lengths) // 2], 1), min(positions))


def _split(prompt: Prompt) -> tuple[list[Message], tuple[Message, ...], list[Message]]:
    """The parts that stay (tools, instructions), the messages of the history, and what was moved behind them, each as
    its chunks."""
    parts: list[list[Chunk]] = []
    for chunk in prompt.chunks:
        if parts and parts[-1][0].segment == chunk.segment:
            parts[-1].append(chunk)
        else:
            parts.append([chunk])
    messages = [tuple(replace(chunk, segment=0) for chunk in part) for part in parts if part[0].kind != MOVED]
    fixed = next((at for at, part in enumerate(messages) if part[0].kind not in _FIXED), len(messages))
    moved = [tuple(part) for part in parts if part[0].kind == MOVED]
    return messages[:fixed], tuple(messages[fixed:]), moved


def _overlap(known: Sequence[Message], history: Sequence[Message]) -> int:
    """How many of the first messages of `history` are the last ones of `known`."""
    for count in range(min(len(known), len(history)), 0, -1):
        if tuple(known[-count:]) == tuple(history[:count]):
            return count
    return 0
