"""What the server asks of the engine's process."""

from __future__ import annotations

from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.delta import FinishReason
from engine.knobs import EngineKnobs
from engine.sampling import SamplingParams

__all__ = ["Add", "Call", "Finish", "Rejected", "Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """The first order: what to load, and where."""

    model_path: Path
    knobs: EngineKnobs
    server_pid: int
    cpus: frozenset[int] = frozenset()
    "Cores the engine is bound to; all that the server has where empty."
    trace_path: Path | None = None


@dataclass(frozen=True, slots=True)
class Add:
    """Answer a request; see `Engine.add`."""

    request_id: str
    prompt: ReadOnlyList[int]
    params: SamplingParams
    arrived_s: float
    priority: int = 0
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """No more of a request is wanted."""

    request_id: str
    reason: FinishReason = "abort"


@dataclass(frozen=True, slots=True)
class Call:
    """Tell or do something that has a result."""

    number: int
    name: Literal["metrics", "reset_prefix_cache"]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Count a request that the server has answered 503: the engine keeps the numbers."""
