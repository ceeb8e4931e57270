"""Fields: short parts of a prompt that change from request to request while what follows stays the same."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.traces.doctor.layout import MOVED, Chunk, Prompt, Words, pieces
from tools.traces.doctor.looks import looks_of, masked

__all__ = ["Field", "fields_of", "moved_to_end"]

_LONGEST = 64
"Pieces of a field; what is longer is content, not a field."
_AGREE = 16
"Pieces that must agree behind a field: less than a block couldn't be shared anyway."
_SHARE = 0.2
"Of the requests compared that must have a field changed."
_EXAMPLES = 50

# A word of digits and marks, as dates and times are, with what may stand at its end.
_FIGURES = re.compile(r"^[\W_]*\d[\d\W_]*(?:T[\d\W_]*)?(?:Z|am|pm|AM|PM|UTC|GMT)?[\W_]*$")


@dataclass(frozen=True, slots=True)
class Field:
    """A stretch of the reference's pieces, from `start` to before `end`."""

    start: int
    end: int
    requests: int
    "In which it differs from the reference's."
    looks: str


@dataclass(frozen=True, slots=True)
class _Aligned:
    """Another prompt laid beside the reference: runs of equal words as (reference, other, length)."""

    other: Words
    runs: tuple[tuple[int, int, int], ...]


def fields_of(prompts: Sequence[Prompt], reference: Prompt) -> tuple[Field, ...]:
    """The varying fields of `prompts`, in the reference's order."""
    ours = pieces(reference)
    words = Words.of(ours)
    seen: list[tuple[int, int, int]] = []
    aligned = [_align(words, Words.of(pieces(prompt))) for prompt in prompts]
    for number, found in enumerate(aligned):
        for (start, _, length), (next_start, _, _) in zip(found.runs, found.runs[1:], strict=False):
            low, high = _places(words, start + length, next_start, ours)
            seen.append((*((low, high) if reference.ids else _whole_words(ours, low, high)), number))
    merged: list[tuple[int, int, set[int]]] = []
    for low, high, number in sorted(seen):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high), merged[-1][2] | {number}
        else:
            merged.append((low, high, {number}))
    fields = []
    for low, high, numbers in merged:
        reached = sum(
            found.runs[-1][0] + found.runs[-1][2] > bisect_left(words.places, high) for found in aligned if found.runs
        )
        if high - low > _LONGEST or len(numbers) < max(2, _SHARE * reached):
            continue
        spans = [_span(words, aligned[number], low, high) for number in sorted(numbers)[:_EXAMPLES]]
        examples = ["".join(ours[low:high])]
        for number, span in zip(sorted(numbers), spans, strict=False):
            if span is not None:
                examples.append("".join(pieces(prompts[number])[span[0] : span[1]]))
        looks = "a varying field (token ids tell no more)"
        if not reference.ids:
            looks = f"{looks_of(examples)} ({masked(examples[0])})"
        fields.append(Field(low, high, len(numbers), looks))
    return tuple(fields)


def moved_to_end(prompt: Prompt, reference: Prompt, fields: Sequence[Field]) -> Prompt:
    """`prompt` with its `fields` taken out and put behind everything else."""
    words, theirs = Words.of(pieces(reference)), pieces(prompt)
    aligned = _align(words, Words.of(theirs))
    spans = [span for field in fields if (span := _span(words, aligned, field.start, field.end)) is not None]
    taken = {at for low, high in spans for at in range(low, high)}
    if not taken:
        return prompt
    chunks, at = [], 0
    for chunk in prompt.chunks:
        kept = tuple(piece for place, piece in enumerate(chunk.pieces, start=at) if place not in taken)
        at += len(chunk.pieces)
        chunks.append(replace(chunk, pieces=kept))
    moved = Chunk(prompt.chunks[-1].segment + 1, MOVED, tuple(theirs[place] for place in sorted(taken)))
    return replace(prompt, chunks=(*chunks, moved))


def _align(ours: Words, theirs: Words) -> _Aligned:
    """Runs of equal words from the front, with at most `_LONGEST` differing ones on either side between them."""
    runs: list[tuple[int, int, int]] = []
    i = j = 0
    while True:
        length = _equal(ours.texts, theirs.texts, i, j)
        if length or not runs:
            runs.append((i, j, length))
        i, j = i + length, j + length
        found = _agreeing(ours.texts, theirs.texts, i, j)
        if found is None:
            return _Aligned(theirs, tuple(runs))
        i, j = found


def _equal(ours: list[str], theirs: list[str], i: int, j: int) -> int:
    """How many words from `i` and `j` on are equal, found by comparing ever longer stretches."""
    length, step = 0, 16
    while step:
        if (
            i + length + step <= len(ours)
            and ours[i + length : i + length + step] == theirs[j + length : j + length + step]
        ):
            length += step
            step *= 2
        else:
            step //= 2
    return length


def _agreeing(ours: list[str], theirs: list[str], i: int, j: int) -> tuple[int, int] | None:
    """The nearest places from which on a block's worth of words is the same again."""
    if i >= len(ours) or j >= len(theirs):
        return None
    starts: dict[tuple[str, ...], int] = {}
    for at in range(i, min(i + _LONGEST, len(ours) - _AGREE) + 1):
        starts.setdefault(tuple(ours[at : at + _AGREE]), at)
    best: tuple[int, int] | None = None
    for at in range(j, min(j + _LONGEST, len(theirs) - _AGREE) + 1):
        if best is not None and at - j >= best[0] - i + best[1] - j:
            break
        found = starts.get(tuple(theirs[at : at + _AGREE]))
        if found is not None and (best is None or found - i + at - j < best[0] - i + best[1] - j):
            best = found, at
    return best


def _places(words: Words, start: int, end: int, given: Sequence[str]) -> tuple[int, int]:
    """Pieces from the word at `start` to before the word at `end`."""
    return (
        words.places[start] if start < len(words) else len(given),
        words.places[end] if end < len(words) else len(given),
    )


def _whole_words(given: Sequence[str], low: int, high: int) -> tuple[int, int]:
    """The stretch widened to whole words, and over neighbours that are of the same making: words with digits beside a
    word with digits (a date beside a time)."""
    low, high = _widened(given, low, high)
    while True:
        before, _ = _widened(given, max(low - 1, 0), low)
        _, after = _widened(given, high, min(high + 1, len(given)))
        if low > 0 and _numeric(given[before:low]) and _numeric(given[low:high]):
            low = before
        elif high < len(given) and _numeric(given[high:after]) and _numeric(given[low:high]):
            high = after
        else:
            return low, high


def _widened(given: Sequence[str], low: int, high: int) -> tuple[int, int]:
    while 0 < low < len(given) and not given[low][:1].isspace() and not given[low - 1].isspace():
        low -= 1
    while high < len(given) and not given[high][:1].isspace():
        high += 1
    return low, high


def _numeric(given: Sequence[str]) -> bool:
    return "\n" not in given and _FIGURES.search("".join(given)) is not None


def _span(words: Words, aligned: _Aligned, low: int, high: int) -> tuple[int, int] | None:
    """The pieces of the other prompt that stand where the reference has `low` to before `high`; None where the two
    don't lie beside each other there."""
    start, end = (_across(aligned, bisect_left(words.places, place)) for place in (low, high))
    if start is None or end is None or start >= end:
        return None
    return aligned.other.places[start], aligned.other.places[end]


def _across(aligned: _Aligned, word: int) -> int | None:
    """The other prompt's word beside the reference's `word`: within a run, or where one begins."""
    for start, other, length in aligned.runs:
        if start <= word < start + length:
            return other + word - start
    # A field's first word is in no run: it stands right behind one.
    for start, other, length in aligned.runs[:-1]:
        if word == start + length:
            return other + length
    return None
