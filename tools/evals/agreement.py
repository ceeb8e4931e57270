"""Agreement: how far two greedy answers to the same prompts run together before they part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Any

from tools.canonical import digest

__all__ = ["GreedyOutputs", "agreement"]


@dataclass(frozen=True)
class GreedyOutputs:
    """What one server answered greedily: digest of the prompt -> ids of the answer's tokens."""

    tokens: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        plain = {prompt: tuple(ids) for prompt, ids in sorted(self.tokens.items())}
        object.__setattr__(self, "tokens", MappingProxyType(plain))

    @property
    def digest(self) -> str:
        """sha256 of all answers: equal when every token is."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {prompt: list(ids) for prompt, ids in self.tokens.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GreedyOutputs:
        return cls({prompt: tuple(ids) for prompt, ids in data.items()})


def agreement(a: GreedyOutputs, b: GreedyOutputs) -> float:
    """Mean over prompts of (tokens before the first difference) / (length of the longer answer), from 0 to 1.

    An answer that merely ends earlier differs where it ends. After one flipped token all that follows is another text,
    so only the common prefix counts.

    Raises:
        ValueError: the two answered different prompts, or none.
    """
    if a.tokens.keys() != b.tokens.keys() or not a.tokens:
        raise ValueError("agreement needs two answers to the same prompts, and at least one prompt")
    return fmean(_shared_prefix(ids, b.tokens[prompt]) for prompt, ids in a.tokens.items())


def _shared_prefix(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    longer = max(len(a), len(b))
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return same / longer if longer else 1.0
