"""Workload: a distribution of requests, made concrete by a seed. Both are content-addressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.canonical import digest
from tools.measure.arrivals import ArrivalSpec, Replay
from tools.measure.draw import draw
from tools.measure.lengths import GapSpec, LengthSpec
from tools.measure.prose import INDEX_WORDS, MAX_SEED, SALT_WORDS, Request, write
from tools.measure.records import RequestRecord
from tools.measure.shapes import Shapes

__all__ = ["MAX_SEED", "Request", "Workload", "WorkloadClass", "WorkloadSpec", "materialise", "sharing_bound"]

WorkloadClass = Literal["chat", "chat-plus", "background-agent", "data-processor"]
"""chat-plus: a person waits, tools act, turns build on each other. background-agent: long growing context, and
somebody waits for the end. data-processor: bulk, nobody waits. chat: single questions."""


class WorkloadSpec(BaseModel):
    """What users do, as a distribution. Lengths are in words of the bundled vocabulary, about one token each.

    Either from lengths (`prompt_tokens`, `output_tokens` and what goes with them) or from the `shapes` of a log.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    workload_class: WorkloadClass = Field(default="chat", alias="class")
    requests: int = Field(ge=1, le=2_000_000)
    "In all, every turn of every conversation counted."
    system_prompt_tokens: int = Field(default=0, ge=0, le=1_000_000)
    "Length of the shared prefix; 0 sends no system message."
    tools: int = Field(default=0, ge=0, le=256)
    "Function definitions sent with every request (`tool_choice: none`: they are read, not called)."
    prompt_tokens: LengthSpec | None = None
    "Length of each user message, which no two requests share."
    output_tokens: LengthSpec | None = None
    "Sent as `max_tokens`; the exact length where the server takes `ignore_eos`."
    length_correlation: float = Field(default=0.0, ge=-0.99, le=0.99)
    "Rank correlation (Spearman) of a request's prompt and output lengths."
    turns: LengthSpec = LengthSpec(min=1, max=1)
    "Requests of a conversation; each prompt holds the prompts and answers before it."
    turn_gap_s: GapSpec = GapSpec(max_s=0.0)
    "From the end of an answer until the conversation's next request is due."
    shapes: Shapes | None = None
    arrivals: ArrivalSpec
    "Of conversations: their later turns come when they come."
    warmup_requests: int = Field(default=2, ge=0, le=10_000)
    "Sent before the measured window, with prompts of their own."
    timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    "For each request, from the moment it was due to its last token."
    seed: int = Field(default=0, ge=0, le=MAX_SEED)

    @field_validator("system_prompt_tokens")
    @classmethod
    def _room_for_the_salt(cls, value: int) -> int:
        if 0 < value < INDEX_WORDS + SALT_WORDS:
            raise ValueError(
                f"expected 0, or at least {INDEX_WORDS + SALT_WORDS} so that each seed gets a prefix of its own"
            )
        return value

    @field_validator("prompt_tokens")
    @classmethod
    def _room_for_salt_and_index(cls, value: LengthSpec | None) -> LengthSpec | None:
        least = SALT_WORDS + INDEX_WORDS
        if value is not None and value.min < least:
            raise ValueError(f"expected min >= {least} so that each request gets a prompt of its own")
        return value

    @model_validator(mode="after")
    def _lengths_or_shapes(self) -> WorkloadSpec:
        if self.shapes is None:
            if self.prompt_tokens is None or self.output_tokens is None:
                raise ValueError("expected prompt_tokens and output_tokens (or the shapes of a log)")
            return self
        theirs = ("prompt_tokens", "output_tokens", "turns", "turn_gap_s", "length_correlation", "system_prompt_tokens")
        if given := sorted(self.model_fields_set.intersection(theirs)):
            raise ValueError(f"expected either shapes or lengths, found both: shapes and {', '.join(given)}")
        return self

    @model_validator(mode="after")
    def _moments_enough(self) -> WorkloadSpec:
        if isinstance(self.arrivals, Replay) and len(self.arrivals.times_s) < self.requests / self._most_turns:
            raise ValueError(f"the replay has {len(self.arrivals.times_s)} moments for {self.requests} requests")
        return self

    @property
    def least_new_tokens(self) -> int:
        """The fewest prompt tokens of a request that no cache can hold."""
        if self.shapes is None:
            assert self.prompt_tokens is not None
            return self.prompt_tokens.min
        return min(new for shape in self.shapes.conversations for new, _, _ in shape.turns)

    @property
    def has_turns(self) -> bool:
        """Whether any conversation has more than one request."""
        return self._most_turns > 1

    @property
    def _most_turns(self) -> int:
        return self.turns.max if self.shapes is None else max(len(shape.turns) for shape in self.shapes.conversations)

    @property
    def digest(self) -> str:
        """sha256 of the spec without its default seed: the same distribution has the same digest.

        Not kept: a changed copy would take it along.
        """
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"seed"}))


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
    def prompt_words(self) -> tuple[int, ...]:
        """Words of each request's whole prompt, full stops counted."""
        counted: dict[int, int] = {}  # by identity: a conversation's turns share their messages
        return tuple(
            sum(counted.setdefault(id(message), _words(message["content"])) for message in request.messages)
            for request in self.requests
        )

    @cached_property
    def declared_sharing(self) -> float:
        """Share of the prompt words that other requests or earlier turns hold too, 0 to 1.

        It is what an honest prefix cache can hit at most when a word is a token; the first appearance of a prefix is a
        miss. The chat template's own tokens aren't in it; `sharing_bound` counts them.
        """
        total = sum(self.prompt_words)
        return 1 - sum(request.own_words for request in self.requests) / total if total else 0.0


def materialise(spec: WorkloadSpec, seed: int | None = None) -> Workload:
    """The concrete requests of `spec` under `seed` (the spec's own by default).

    Two seeds of one spec have no request and no cacheable prefix in common (but for first messages under nine words,
    see `prose.write`), and the same marginal lengths (see `copula`).

    Raises:
        ValueError: a seed below 0 or above 2**63 - 1.
    """
    seed = spec.seed if seed is None else seed
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"expected a seed from 0 to 2**63 - 1, found {seed}")

    def written(part: str, requests: int, scheduled: bool) -> tuple[Request, ...]:
        if not requests:
            return ()
        skeleton = draw(spec, requests, seed, part=part, scheduled=scheduled)
        return write(skeleton, seed, part=part, spec_digest=spec.digest, tools=spec.tools)

    # The warm-up is sent at once: it is there to touch every code path, not to be timed.
    measured = written("measured", spec.requests, scheduled=True)
    return Workload(spec, seed, measured, written("warmup", spec.warmup_requests, scheduled=False))


def sharing_bound(workload: Workload, records: Sequence[RequestRecord]) -> float | None:
    """The largest prefix-hit rate that an honest cache can reach on this workload, 0 to 1, in the server's tokens.

    Per request, what it shares with others is its prompt without its own words. The server counts the prompt, and w
    words have at least w tokens (tokenizers merge neither across a space nor letters with a full stop), so the shared
    part is at most `prompt_tokens - w`; that holds for every chat template, which adds tokens of its own. None without
    counts.
    """
    words = {request.index: request.own_words for request in workload.requests}
    counted = [(r.prompt_tokens, words[r.index]) for r in records if r.prompt_tokens is not None and r.index in words]
    total = sum(tokens for tokens, _ in counted)
    return sum(max(tokens - own, 0) for tokens, own in counted) / total if total else None


def _words(text: str) -> int:
    return text.count(" ") + text.count(".") + 1 if text else 0
