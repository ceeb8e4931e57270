"""Order: a list whose entries all prompts of an application have, in an order that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.traces.doctor.layout import Chunk, Prompt

__all__ = ["Shuffle", "shuffle_of"]

_STATIC_SHARE = 0.6
_LEAST_PIECES = 3
"Of an entry: shorter lines (a bracket, a blank one) say nothing."

Content = tuple[str, ...]


@dataclass(frozen=True)
class Shuffle:
    """Entries that change places."""

    rank: dict[Content, int]
    "Their order in the reference."
    requests: int
    "That have them in another."
    position: int
    "Of the first that is out of place, in pieces."
    entries: int
    "That are ever out of place."
    looks: str

    def mended(self, prompt: Prompt) -> Prompt:
        """`prompt` with its entries in the reference's order, in the places that they hold between them."""
        places, entries = _entries(prompt, self.rank)
        chunks = list(prompt.chunks)
        for place, entry in zip(places, sorted(entries, key=lambda entry: self.rank[_content(entry)]), strict=True):
            body, tail = entry.pieces[: _end(entry)], chunks[place].pieces[_end(chunks[place]) :]
            chunks[place] = replace(entry, segment=chunks[place].segment, pieces=(*body, *tail))
        return replace(prompt, chunks=tuple(chunks))


def shuffle_of(prompts: Sequence[Prompt], reference: Prompt) -> Shuffle | None:
    """The list that is shuffled in `prompts`, of chunks that most of them have exactly once; None without one."""
    counted = [Counter(map(_content, prompt.chunks)) for prompt in prompts]
    having = Counter(content for counts in counted for content, count in counts.items() if count == 1)
    static = [
        content
        for chunk in reference.chunks
        if len(content := _content(chunk)) >= _LEAST_PIECES and having[content] >= _STATIC_SHARE * len(prompts)
    ]
    rank = {content: place for place, content in enumerate(static)}
    requests, position, moved = 0, None, set[Content]()
    for prompt in prompts:
        places, entries = _entries(prompt, rank)
        order = [_content(entry) for entry in entries]
        out_of_place = [at for at, content in enumerate(sorted(order, key=rank.__getitem__)) if content != order[at]]
        if not out_of_place:
            continue
        requests += 1
        moved.update(order[at] for at in out_of_place)
        first = sum(len(chunk.pieces) for chunk in prompt.chunks[: places[out_of_place[0]]])
        position = first if position is None else min(position, first)
    if position is None:
        return None
    kinds = Counter(chunk.kind for chunk in reference.chunks if _content(chunk) in moved)
    named = {"tool": "tool definitions", "ids": "stretches of tokens"}
    kind = kinds.most_common(1)[0][0]
    return Shuffle(rank, requests, position, len(moved), named.get(kind, f"lines of the {kind} part"))


def _entries(prompt: Prompt, rank: dict[Content, int]) -> tuple[list[int], list[Chunk]]:
    """Places and chunks of what is in `rank` and stands in `prompt` once."""
    counts = Counter(map(_content, prompt.chunks))
    places = [at for at, chunk in enumerate(prompt.chunks) if _content(chunk) in rank and counts[_content(chunk)] == 1]
    return places, [prompt.chunks[at] for at in places]


def _content(chunk: Chunk) -> Content:
    """What an entry is, but for how it is spaced and for what ends it."""
    return tuple("".join(chunk.pieces[: _end(chunk)]).split()) if chunk.kind != "ids" else chunk.pieces


def _end(chunk: Chunk) -> int:
    """How many pieces are the entry's own: what ends it (a comma, a bracket, blanks) belongs to its place."""
    end = len(chunk.pieces)
    while end and chunk.kind != "ids" and not chunk.pieces[end - 1].strip(" ,])\r\n\t"):
        end -= 1
    return end
