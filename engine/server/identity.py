"""ServerIdentity: what exactly is being served, as /server_info tells it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import __version__
from engine.core import Engine
from engine.digest import config_hash
from engine.knobs import Value

__all__ = ["ServerIdentity"]


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Model, configuration and process. `config` holds the values in effect, `requested` those that were asked for."""

    model: str
    model_path: Path
    model_digest: str
    config: Mapping[str, Value]
    requested: Mapping[str, Value]
    started_at: float
    limits: Mapping[str, int]
    kv_cache: Mapping[str, int]
    memory: Mapping[str, int]

    @classmethod
    def of(
        cls, engine: Engine, *, model: str, path: Path, digest: str, requested: Mapping[str, Value]
    ) -> ServerIdentity:
        """The identity of a running `engine`."""
        knobs, plan = engine.knobs, engine.memory
        return cls(
            model=model,
            model_path=path,
            model_digest=digest,
            config=knobs.to_dict(),
            requested=requested,
            started_at=engine.metrics.started_at,
            limits={
                "max_model_len": knobs.max_model_len,
                "max_prompt_tokens": engine.max_prompt_tokens,
                "max_num_seqs": knobs.max_num_seqs,
                "max_queue_len": knobs.max_queue_len,
            },
            kv_cache={
                "num_blocks": engine.num_blocks,
                "block_size": knobs.block_size,
                "bytes": plan.kv_cache_bytes,
            },
            memory={**plan.parts, "total": plan.total_bytes},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": f"autotune-engine {__version__}",
            "model": self.model,
            "model_path": str(self.model_path),
            "model_digest": self.model_digest,
            "config": dict(self.config),
            "config_hash": config_hash(self.config),
            "requested": dict(self.requested),
            "started_at": self.started_at,
            "pid": os.getpid(),
            "limits": dict(self.limits),
            "kv_cache": dict(self.kv_cache),
            "memory": dict(self.memory),
        }
