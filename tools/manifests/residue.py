"""What a file says beside some of its characters, so that before and after an edit can be compared."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

__all__ = ["plain_residue", "yaml_residue"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plain_residue(text: str, extents: Sequence[tuple[int, int]]) -> list[str]:
    """The words of `text` outside `extents`: white space and continuations don't count, since lines come and go."""
    pieces = _outside(text, 0, len(text), _merged(extents))
    return [word for piece in pieces for word in piece.split() if word != "\\"]


def yaml_residue(text: str, extents: Sequence[tuple[int, int]]) -> tuple[list[object], list[str]]:
    """YAML's events outside `extents` (of a scalar that holds one, what stands around it), and all comments."""
    merged = _merged(extents)
    said: list[object] = []
    for event, start, end in _ranges(text):
        at = bisect_right(merged, (start, len(text))) - 1
        if at >= 0 and start < merged[at][1] and end <= merged[at][1]:
            continue
        value = getattr(event, "value", None)
        if isinstance(event, yaml.ScalarEvent) and any(start <= one < end for one, _ in merged):
            value = tuple(" ".join(piece.split()) for piece in _outside(text, start, end, merged))
        said.append((type(event).__name__, getattr(event, "anchor", None), getattr(event, "tag", None), value))
    return said, _comments(text)


def _ranges(text: str) -> Iterator[tuple[yaml.Event, int, int]]:
    """Each event with the characters that it stands for: a list or mapping, from its start, for all that is in it."""
    events = list(yaml.parse(text, Loader=_LOADER))
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}
    open_: list[int] = []
    for number, event in enumerate(events):
        assert event.start_mark is not None and event.end_mark is not None
        starts[number], ends[number] = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(number)
        elif isinstance(event, yaml.CollectionEndEvent):
            first = open_.pop()
            starts[number] = starts[first]
            ends[first] = ends[number]
    yield from ((event, starts[number], ends[number]) for number, event in enumerate(events))


def _merged(extents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(extents):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _outside(text: str, start: int, end: int, merged: Sequence[tuple[int, int]]) -> list[str]:
    pieces, at = list[str](), start
    for one, other in merged:
        if one < end and other > start:
            pieces.append(text[at : max(one, at)])
            at = max(at, other)
    return [*pieces, text[at:end]]


def _comments(text: str) -> list[str]:
    """What stands between YAML's tokens and isn't white space."""
    comments: list[str] = []
    at = 0
    for token in yaml.scan(text, Loader=_LOADER):
        start, end = token.start_mark.index, token.end_mark.index
        if start > at and (found := text[at:start].strip()):
            comments += [line.strip() for line in found.splitlines() if line.strip()]
        at = max(at, end)
    return comments
