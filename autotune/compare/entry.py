"""Entry: what is to be known of a contender, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from tools.targets.knobs import Value

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """One contender. The same in every launch."""

    name: str
    file: str
    engine: str
    target: Mapping[str, Any]
    "As the deployment has it."
    model: str
    model_digest: str
    config: Mapping[str, Value]
    "That it is launched with, its KV cache sized."
    lossy: Mapping[str, Value] = field(default_factory=dict)
    "Knobs of it that can change what the model says."
    kv_bytes: int | None = None
    "Of its KV cache by its target's formula; None where that doesn't tell."
    kv_tokens: int | None = None
    "Tokens of a full context that fit into that; None where the model isn't known well enough."
    seats: int | None = None
    "Most sequences that it runs together whatever their length; None where its config doesn't say."
    unsized: str = ""
    "Why its KV cache isn't as large as the others'; empty where it is, or where nobody asked for that."

    @property
    def model_name(self) -> str:
        """Without the folder that it is in."""
        return PurePath(self.model).name

    def sequences(self, longest_tokens: int) -> int | None:
        """Most sequences of so many tokens that it runs together; None where that can't be told."""
        fit = self.kv_tokens // longest_tokens if self.kv_tokens and longest_tokens else None
        told = [count for count in (fit, self.seats) if count is not None]
        return min(told, default=None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
