"""Replica: a service curve and what else it takes to play one server step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.service.curve import ServiceCurve

__all__ = ["Replica"]


@dataclass(frozen=True, slots=True)
class Replica:
    """One continuously batching server: seats, whole steps, prompts read in chunks beside the decoding sequences."""

    curve: ServiceCurve
    chunk_tokens: int
    "Most tokens of one step, prompts and new tokens together (`max_num_batched_tokens` where the engine has a name)."
    latency_share: float = 1.0
    "Share of `curve.overhead_s` that passes outside the engine, 0 to 1; the rest makes each reading step longer."

    @property
    def latency_s(self) -> float:
        """From the moment a request is sent until the engine may schedule it."""
        return self.curve.overhead_s * self.latency_share

    @property
    def reading_s(self) -> float:
        """What a step that reads a prompt costs beyond its tokens while nothing is decoded: weights are read too."""
        return self.curve.overhead_s * (1 - self.latency_share)

    def step_s(self, sequences: int, prompt_tokens: int) -> float:
        """Seconds of a step that gives `sequences` a token each and reads `prompt_tokens` beside them."""
        read_s = prompt_tokens * self.curve.prefill_s_per_token
        if sequences == 0:
            return self.reading_s + read_s
        return self.curve.step_s(sequences) + read_s

    def to_json(self) -> dict[str, Any]:
        return {
            "curve": self.curve.to_json(),
            "chunk_tokens": self.chunk_tokens,
            "latency_share": self.latency_share,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Replica:
        """The replica that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        return cls(ServiceCurve.from_json(data["curve"]), data["chunk_tokens"], data["latency_share"])
