"""What the engine's process tells the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.delta import Delta
from engine.errors import StartKind
from engine.knobs import Value

if TYPE_CHECKING:
    from engine.core import Engine

__all__ = ["Ready", "Refusal", "Refused", "Report", "Result"]


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded; what exactly runs."""

    config: Mapping[str, Value]
    "Knobs in effect."
    model_digest: str
    started_at: float
    "Unix time."
    vocab_size: int
    num_blocks: int
    kv_cache_bytes: int
    memory: Mapping[str, int]
    "Bytes by what needs them, and their total."

    @classmethod
    def of(cls, engine: Engine, model_digest: str) -> Ready:
        return cls(
            config=engine.knobs.to_dict(),
            model_digest=model_digest,
            started_at=engine.metrics.started_at,
            vocab_size=engine.model_config.vocab_size,
            num_blocks=engine.layout.num_blocks,
            kv_cache_bytes=engine.cache.num_bytes,
            memory={**engine.memory.parts, "total": engine.memory.total_bytes},
        )


class Refused(NamedTuple):
    """The model can't be served."""

    kind: StartKind
    sentence: str


class Report(NamedTuple):
    """A step has been computed, or there was none to compute."""

    running: int
    waiting: int
    deltas: list[Delta]


class Refusal(NamedTuple):
    """A request can't be served after all."""

    request_id: str
    sentence: str
    status: int
    code: str
    param: str | None


class Result(NamedTuple):
    """Of a call."""

    number: int
    value: Any
