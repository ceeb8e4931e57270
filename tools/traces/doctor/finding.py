"""Finding: one thing that breaks sharing, where it stands, and what mending it would give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Tokens are pieces of text of about a token each, or the log's own token ids."""

    fault: str
    "varying_field, shuffled_list, format, or sliding_window."
    app: int
    "Number of the application, from 0."
    position: int
    "Token at which it first stands."
    length: int
    "Its tokens: of the field, of the list; 0 where it has none."
    requests: int
    "In which it was seen."
    of_requests: int
    "Of the application."
    looks: str
    "What it looks like; masked, for prompts are nobody's business."
    remedy: str
    hit_rate_before: float
    "With an unlimited cache, over the whole log, with what stands above it in the prompt mended already."
    hit_rate_after: float
    uncached_before: float
    "Prompt tokens per request that no cache holds, likewise."
    uncached_after: float
    ttft_saved_s: float | None = None
    "Per request, in the mean; None without a prefill speed."

    @property
    def sentence(self) -> str:
        what = {
            "varying_field": f"{self.looks} at token {self.position}, {_tokens(self.length)} long",
            "shuffled_list": f"a list in varying order from token {self.position} on: {self.length} {self.looks}",
            "format": f"equal content written in different ways from token {self.position} on: {self.looks}",
            "sliding_window": f"a history that loses its beginning from token {self.position} on: {self.looks}",
        }[self.fault]
        return f"{what}; in {self.requests} of {self.of_requests} requests. {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"sentence": self.sentence}


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
