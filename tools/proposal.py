"""Proposal: a config patch with the hypothesis behind it. Data only: it holds no measurement and no verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from tools.canonical import digest
from tools.targets.knobs import Value

__all__ = ["Proposal", "Source"]

Source = Literal["baseline", "playbook", "search", "llm"]


@dataclass(frozen=True)
class Proposal:
    """`patch` is applied to the *baseline* config, so a proposal means the same whatever was tried before it."""

    patch: Mapping[str, Value]
    hypothesis: str
    "Why it should help: free text from a proposer, quoted and escaped wherever it is shown."
    source: Source

    def __post_init__(self) -> None:
        object.__setattr__(self, "patch", MappingProxyType(dict(sorted(self.patch.items()))))

    @cached_property
    def digest(self) -> str:
        """sha256 of what would be changed; the prose doesn't count."""
        return digest(dict(self.patch))

    def to_json(self) -> dict[str, Any]:
        return {"patch": dict(self.patch), "hypothesis": self.hypothesis, "source": self.source}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Proposal:
        return cls(patch=data["patch"], hypothesis=data["hypothesis"], source=data["source"])
