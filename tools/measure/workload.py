"""Workload: a distribution of requests, made concrete by a seed. Both are content-addressed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tools.canonical import digest
from tools.measure.arrivals import ArrivalSpec, schedule
from tools.measure.lengths import LengthSpec
from tools.measure.records import RequestRecord
from tools.measure.words import WORDS, spell

__all__ = ["MAX_SEED", "Message", "Request", "Workload", "WorkloadSpec", "materialise", "sharing_bound"]

MAX_SEED = 2**63 - 1

_SALT_WORDS = 7  # 7 words of 9 bits hold a seed's 63 bits
_INDEX_WORDS = 2
_SENTENCE_WORDS = 11

Message = dict[str, str]
"""`{"role": ..., "content": ...}`, as the chat completions API takes it."""


class WorkloadSpec(BaseModel):
    """What users do, as a distribution. Lengths are in words of the bundled vocabulary, about one token each."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    workload_class: Literal["chat"] = Field(default="chat", alias="class")
    "chat: one turn each, behind one system prompt that all requests share."
    requests: int = Field(ge=1, le=100_000)
    system_prompt_tokens: int = Field(default=0, ge=0, le=1_000_000)
    "Length of the shared prefix; 0 sends no system message."
    prompt_tokens: LengthSpec
    "Length of the user message, which no two requests share."
    output_tokens: LengthSpec
    "Sent as `max_tokens`; the exact length where the server takes `ignore_eos`."
    arrivals: ArrivalSpec
    warmup_requests: int = Field(default=2, ge=0, le=10_000)
    "Sent before the measured window, with prompts of their own."
    timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    "For each request, from the moment it was due to its last token."
    seed: int = Field(default=0, ge=0, le=MAX_SEED)

    @field_validator("system_prompt_tokens")
    @classmethod
    def _room_for_the_salt(cls, value: int) -> int:
        if 0 < value < _SALT_WORDS:
            raise ValueError(f"expected 0, or at least {_SALT_WORDS} so that each seed gets a prefix of its own")
        return value

    @field_validator("prompt_tokens")
    @classmethod
    def _room_for_salt_and_index(cls, value: LengthSpec) -> LengthSpec:
        least = _SALT_WORDS + _INDEX_WORDS
        if value.min < least:
            raise ValueError(f"expected min >= {least} so that each request gets a prompt of its own")
        return value

    @property
    def digest(self) -> str:
        """sha256 of the spec without its default seed: the same distribution has the same digest."""
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"seed"}))


@dataclass(frozen=True, slots=True)
class Request:
    """One concrete request. `scheduled_s` counts from the start of the load; None in a closed loop."""

    index: int
    messages: tuple[Message, ...]
    max_tokens: int
    scheduled_s: float | None
    user_words: int
    "Words of the user message: the part of the prompt that no other request shares."

    def to_json(self) -> dict[str, Any]:
        return {"messages": list(self.messages), "max_tokens": self.max_tokens, "scheduled_s": self.scheduled_s}


@dataclass(frozen=True)
class Workload:
    """A spec made concrete. Equal digests mean the same bytes sent at the same moments."""

    spec: WorkloadSpec
    seed: int
    requests: tuple[Request, ...]
    warmup: tuple[Request, ...]

    @cached_property
    def digest(self) -> str:
        """sha256 of the spec and of every request with its schedule."""
        return digest({"spec": self.spec_digest, "requests": [request.to_json() for request in self.requests]})

    @property
    def spec_digest(self) -> str:
        return self.spec.digest

    @cached_property
    def declared_sharing(self) -> float:
        """Share of the prompt words that stand in the shared system prompt, 0 to 1.

        It is what an honest prefix cache can hit at most when a word is a token: only the system prompt repeats, and
        its first appearance is a miss. The chat template's own tokens aren't in it; `sharing_bound` counts them.
        """
        shared = self.spec.system_prompt_tokens * len(self.requests)
        return shared / (shared + sum(request.user_words for request in self.requests))


def materialise(spec: WorkloadSpec, seed: int | None = None) -> Workload:
    """The concrete requests of `spec` under `seed` (the spec's own by default).

    Every system prompt and every user message starts with words that spell the seed, so two seeds of one spec have no
    request and no cacheable prefix in common: a guarantee, not a likelihood. (For two specs, and for the warm-up, it
    is a likelihood of 1 - 2**-63.) Lengths and arrivals are drawn apart from the text, so two specs that differ in
    their rate alone draw the same lengths from the same seed.

    Raises:
        ValueError: a seed below 0 or above 2**63 - 1.
    """
    seed = spec.seed if seed is None else seed
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"expected a seed from 0 to 2**63 - 1, found {seed}")
    due = schedule(spec.arrivals, spec.requests, seed)
    requests = _draw(spec, seed, spec.requests, due, part="measured")
    # A closed loop's warm-up is sent together too: it is there to touch every code path, not to be timed.
    warmup = _draw(spec, seed, spec.warmup_requests, (0.0,) * spec.warmup_requests, part="warmup")
    return Workload(spec, seed, requests, warmup)


def sharing_bound(workload: Workload, records: Sequence[RequestRecord]) -> float | None:
    """The largest prefix-hit rate that an honest cache can reach on this workload, 0 to 1, in the server's tokens.

    Per request, what it shares with others is its prompt without its user message. The server counts the prompt, and a
    user message of w words has at least w tokens (tokenizers merge neither across a space nor letters with a full
    stop), so the shared part is at most `prompt_tokens - w`; that holds for every chat template, which adds tokens of
    its own. None without counts.
    """
    words = {request.index: request.user_words for request in workload.requests}
    counted = [(r.prompt_tokens, words[r.index]) for r in records if r.prompt_tokens is not None and r.index in words]
    total = sum(tokens for tokens, _ in counted)
    return sum(max(tokens - own, 0) for tokens, own in counted) / total if total else None


def _draw(
    spec: WorkloadSpec, seed: int, count: int, due: tuple[float, ...] | None, *, part: str
) -> tuple[Request, ...]:
    salt = spell(_scramble(seed) ^ _mask(spec, part), _SALT_WORDS)
    lengths = Random(f"{part}/lengths/{seed}")
    text = Random(f"{part}/text/{spec.digest}/{seed}")
    system = _prose(text, salt, spec.system_prompt_tokens) if spec.system_prompt_tokens else ""
    requests = []
    for index in range(count):
        words = spec.prompt_tokens.draw(lengths)
        user = _prose(text, spell(index, _INDEX_WORDS) + salt, words)
        messages = [{"role": "user", "content": user}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        max_tokens = spec.output_tokens.draw(lengths)
        requests.append(Request(index, tuple(messages), max_tokens, due[index] if due else None, words))
    return tuple(requests)


def _prose(random: Random, opening: list[str], length: int) -> str:
    """`length` words, the opening first, in lower-case sentences. Full stops count as words: each is a token."""
    words = list(opening)
    while len(words) < length:
        ends = len(words) % (_SENTENCE_WORDS + 1) == _SENTENCE_WORDS
        words.append("." if ends else WORDS[int(random.random() * len(WORDS))])
    return " ".join(words).replace(" .", ".")


def _scramble(seed: int) -> int:
    """A bijection on 63 bits, so that neighbouring seeds differ in their first word and in all others too.

    Odd multiplications and xor-shifts are each invertible (the finaliser of splitmix64, cut to 63 bits).
    """
    for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
        seed = ((seed ^ (seed >> shift)) * factor) & MAX_SEED
    return seed ^ (seed >> 31)


def _mask(spec: WorkloadSpec, part: str) -> int:
    """63 bits of the spec and the part: the same seed under another spec, or in the warm-up, gets other words."""
    return int.from_bytes(hashlib.sha256(f"{part}/{spec.digest}".encode()).digest()[:8], "big") & MAX_SEED
