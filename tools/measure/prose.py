"""Prose: concrete requests from a skeleton. Common words about nothing, salted so that no two seeds share a prompt."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from tools.measure.skeleton import Conversation, Skeleton, Turn
from tools.measure.words import WORDS, spell

__all__ = ["INDEX_WORDS", "MAX_SEED", "SALT_WORDS", "Message", "Request", "write"]

MAX_SEED = 2**63 - 1
SALT_WORDS = 7  # 7 words of 9 bits hold a seed's 63 bits
INDEX_WORDS = 2  # at the least; as many as the largest index needs
_SENTENCE_WORDS = 11
_TOOL_WORDS = 12

Message = dict[str, str]
"""`{"role": ..., "content": ...}`, as the chat completions API takes it."""

Tools = tuple[dict[str, Any], ...]
"""Function definitions, as the API takes them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One concrete request. `scheduled_s` counts from the start of the load; None where it follows an answer."""

    index: int
    messages: tuple[Message, ...]
    max_tokens: int
    scheduled_s: float | None
    own_words: int
    """Words of the prompt that stand in no request sent before it: no honest cache holds them.

    Of a message shorter than its index (a log's question of one word) another one may hold the same.
    """
    conversation: int = 0
    turn: int = 0
    gap_s: float = 0.0
    "From the end of the conversation's answer before until this request is due."
    tools: Tools = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": list(self.messages),
            "max_tokens": self.max_tokens,
            "scheduled_s": self.scheduled_s,
            "own_words": self.own_words,
            "conversation": self.conversation,
            "turn": self.turn,
            "gap_s": self.gap_s,
            **({"tools": list(self.tools)} if self.tools else {}),
        }


def write(skeleton: Skeleton, seed: int, *, part: str, spec_digest: str, tools: int = 0) -> tuple[Request, ...]:
    """The requests of `skeleton`, conversation by conversation, `tools` function definitions with each.

    Every prefix and every user message starts with words that spell its place (2 for up to 512**2 of a kind, else 3),
    and then the seed (7), and every tool's description starts with the seed. What that makes of two seeds:

    - Prefixes and messages long enough for both, 9 words or 10, are never the same: a guarantee, not a likelihood.
      Requests that begin with one, or with tools, have no cacheable prefix in common.
    - Shorter ones are cut, and may be the same: of a log's conversations with a first message of a few words, no shared
      prefix before it and no tools, two seeds can have the first request in common.
    - For two specs, and for two parts such as the warm-up, the 9 or 10 words differ with a likelihood of 1 - 2**-63.

    The answers in a conversation's history are written here too, as long as the skeleton says: the same bytes are sent
    to every server.
    """
    return _Writer(skeleton, seed, part, spec_digest, tools).requests()


class _Writer:
    def __init__(self, skeleton: Skeleton, seed: int, part: str, spec_digest: str, tools: int) -> None:
        self._skeleton = skeleton
        self._random = Random(f"{part}/text/{spec_digest}/{seed}")
        self._salt = spell(_scramble(seed) ^ _mask(spec_digest, part), SALT_WORDS)
        self._tool_count = tools
        prefix_words = _index_words(len(skeleton.prefixes))
        self._nodes = [self._salted(index, prefix_words, node.tokens) for index, node in enumerate(skeleton.prefixes)]
        self._index_words = _index_words(sum(len(conversation.turns) for conversation in skeleton.conversations))

    def requests(self) -> tuple[Request, ...]:
        written: list[Request] = []
        for index, conversation in enumerate(self._skeleton.conversations):
            self._write(conversation, index, written)
        return tuple(written)

    @cached_property
    def _tools(self) -> Tools:
        return tuple(_tool(self._random, index, self._salt) for index in range(self._tool_count))

    def _write(self, conversation: Conversation, number: int, written: list[Request]) -> None:
        path = self._skeleton.path(conversation.prefix)
        system = " ".join(self._nodes[node] for node in path)
        history: tuple[Message, ...] = ({"role": "system", "content": system},) if path else ()
        before: Turn | None = None
        for place, turn in enumerate(conversation.turns):
            if before is not None:
                history = (*history, {"role": "assistant", "content": self._prose([], before.output_tokens)})
            index = len(written)
            history = (*history, {"role": "user", "content": self._salted(index, self._index_words, turn.new_tokens)})
            written.append(
                Request(
                    index=index,
                    messages=history,
                    max_tokens=turn.output_tokens,
                    scheduled_s=None if place else conversation.start_s,
                    own_words=turn.new_tokens + (before.output_tokens if before is not None else 0),
                    conversation=number,
                    turn=place,
                    gap_s=turn.gap_s,
                    tools=self._tools,
                )
            )
            before = turn

    def _salted(self, place: int, place_words: int, length: int) -> str:
        return self._prose((spell(place, place_words) + self._salt)[:length], length)

    def _prose(self, opening: list[str], length: int) -> str:
        """`length` words, the opening first, in lower-case sentences. Full stops count as words: each is a token."""
        random, last = self._random.random, _SENTENCE_WORDS
        count = len(WORDS)
        words = opening + [
            "." if place % (last + 1) == last else WORDS[int(random() * count)] for place in range(len(opening), length)
        ]
        return " ".join(words).replace(" .", ".")


def _tool(random: Random, index: int, salt: list[str]) -> dict[str, Any]:
    name = "_".join(spell(index, INDEX_WORDS) + salt[:1])
    properties = {
        WORDS[int(random.random() * len(WORDS))]: {"type": kind, "description": " ".join(random.choices(WORDS, k=6))}
        for kind in ("string", "integer")
    }
    parameters = {"type": "object", "properties": properties, "required": sorted(properties)[:1]}
    about = " ".join([*salt, *random.choices(WORDS, k=_TOOL_WORDS - SALT_WORDS)])
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


def _index_words(count: int) -> int:
    """Words that spell each of `count` indices."""
    words = INDEX_WORDS
    while len(WORDS) ** words < count:
        words += 1
    return words


def _scramble(seed: int) -> int:
    """A bijection on 63 bits, so that neighbouring seeds differ in their first word and in all others too.

    Odd multiplications and xor-shifts are each invertible (the finaliser of splitmix64, cut to 63 bits).
    """
    for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
        seed = ((seed ^ (seed >> shift)) * factor) & MAX_SEED
    return seed ^ (seed >> 31)


def _mask(spec_digest: str, part: str) -> int:
    """63 bits of the spec and the part: the same seed under another spec, or in the warm-up, gets other words."""
    return int.from_bytes(hashlib.sha256(f"{part}/{spec_digest}".encode()).digest()[:8], "big") & MAX_SEED
