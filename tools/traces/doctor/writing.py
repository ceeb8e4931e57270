"""Writing: the same content in different spellings: blanks, line ends, the order of a tool definition's keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from tools.traces.doctor.layout import Chunk, Prompt

__all__ = ["Variants", "variants_of"]


@dataclass(frozen=True)
class Variants:
    """Chunks that are written in more than one way by the prompts of one application."""

    usual: dict[tuple[str, ...], tuple[str, ...]]
    "Normal form -> the spelling that most requests have."
    requests: int
    "That have an unusual spelling somewhere."
    position: int
    "Of the first such chunk, in pieces."
    looks: str

    def mended(self, prompt: Prompt) -> Prompt:
        return replace(
            prompt,
            chunks=tuple(
                replace(chunk, pieces=self.usual.get(_normal(chunk), chunk.pieces)) for chunk in prompt.chunks
            ),
        )


def variants_of(prompts: Sequence[Prompt]) -> Variants | None:
    """The chunks that `prompts` spell in more than one way; None without any."""
    spellings: defaultdict[tuple[str, ...], Counter[tuple[str, ...]]] = defaultdict(Counter)
    for prompt in prompts:
        for chunk in dict.fromkeys(prompt.chunks):
            spellings[_normal(chunk)][chunk.pieces] += 1
    usual = {normal: found.most_common(1)[0][0] for normal, found in spellings.items() if len(found) > 1 and normal}
    if not usual:
        return None
    requests, position, looks = 0, None, Counter[str]()
    for prompt in prompts:
        place, first = 0, None
        for chunk in prompt.chunks:
            spelling = usual.get(_normal(chunk))
            if spelling is not None and spelling != chunk.pieces:
                looks[_difference(chunk, spelling)] += 1
                first = place if first is None else first
            place += len(chunk.pieces)
        if first is not None:
            requests += 1
            position = first if position is None else min(position, first)
    assert position is not None
    return Variants(usual, requests, position, looks.most_common(1)[0][0])


def _normal(chunk: Chunk) -> tuple[str, ...]:
    if chunk.kind == "tool":
        try:
            data = orjson.loads("".join(chunk.pieces))
        except orjson.JSONDecodeError:
            pass
        else:
            return ("tool", orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode())
    return tuple("".join(chunk.pieces).split())


def _difference(chunk: Chunk, usual: tuple[str, ...]) -> str:
    ours, theirs = "".join(chunk.pieces), "".join(usual)
    if chunk.kind == "tool":
        return "the keys of tool definitions in another order"
    if ours.replace("\r\n", "\n") == theirs.replace("\r\n", "\n"):
        return "line ends (CRLF and LF)"
    if ours.rstrip() == theirs.rstrip():
        return "blanks or empty lines at the ends of lines"
    return "blanks within lines"
