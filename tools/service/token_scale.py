"""TokenScale: from the words of a workload to the tokens that a server reads and writes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tools.measure.records import RequestRecord
from tools.measure.skeleton import Skeleton
from tools.measure.workload import Workload
from tools.service.jobs import Job

__all__ = ["TokenScale"]

_VARIED = 1.2
"The longest prompt over the shortest from which a slope can be told."


@dataclass(frozen=True, slots=True)
class TokenScale:
    """How this server counts the words that we send, what of them its cache holds, and how long its answers are."""

    per_word: float
    "Prompt tokens a word."
    per_request: float
    "Prompt tokens that each request has besides: the chat template, tool definitions."
    hit_share: float
    "Share of the tokens that stood in an earlier request or turn which the cache really held, 0 to 1."
    output_share: float
    "Output tokens over the most that were asked for; below 1 where answers end by themselves."

    @classmethod
    def of(cls, loads: Sequence[tuple[Workload, Sequence[RequestRecord]]]) -> TokenScale:
        """From what was sent and what the server counted. Where no request was answered: a word is a token."""
        words, tokens, repeated, cached, asked, written = [], [], [], 0, 0, 0
        for workload, records in loads:
            for record in records:
                if record.outcome != "ok" or record.prompt_tokens is None:
                    continue
                request = workload.requests[record.index]
                words.append(workload.prompt_words[record.index])
                tokens.append(record.prompt_tokens)
                if record.index:  # the first request finds nothing to share
                    repeated.append(workload.prompt_words[record.index] - request.own_words)
                    cached += record.cached_tokens or 0
                asked += request.max_tokens
                written += record.output_tokens or 0
        if not words:
            return cls(1.0, 0.0, 0.0, 1.0)
        per_word, per_request = 1.0, float(np.median(np.subtract(tokens, words)))
        if max(words) > _VARIED * min(words):
            per_word, per_request = np.polyfit(words, tokens, 1).tolist()
        if per_word <= 0 or per_request < 0:
            per_word, per_request = sum(tokens) / sum(words), 0.0
        shareable = per_word * sum(repeated)
        hits = min(cached / shareable, 1.0) if shareable else 0.0
        return cls(per_word, per_request, hits, min(written / asked, 1.0) if asked else 1.0)

    def jobs(self, skeleton: Skeleton) -> tuple[Job, ...]:
        """The requests of `skeleton` in the order of a workload's indices: conversation by conversation.

        What a conversation shares is in the cache once a conversation before it has brought it there.
        """
        jobs: list[Job] = []
        seen: set[int] = set()
        for conversation in skeleton.conversations:
            path = skeleton.path(conversation.prefix)
            prompt = sum(skeleton.prefixes[node].tokens for node in path)
            held = sum(skeleton.prefixes[node].tokens for node in path if node in seen)
            seen.update(path)
            for place, turn in enumerate(conversation.turns):
                prompt += turn.new_tokens
                read = self.per_request + self.per_word * (prompt - self.hit_share * held)
                output = max(round(turn.output_tokens * self.output_share), 1)
                jobs.append(
                    Job(
                        due_s=None if place else conversation.start_s,
                        prompt_tokens=max(round(read), 1),
                        output_tokens=output,
                        after=len(jobs) - 1 if place else -1,
                        gap_s=turn.gap_s,
                    )
                )
                held = prompt
                prompt += turn.output_tokens
        return tuple(jobs)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TokenScale:
        """The scale that `to_json` wrote.

        Raises:
            TypeError: not such data.
        """
        return cls(**data)
