"""ServerIdentity: what exactly is being served, as /server_info tells it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from engine import __version__
from engine.digest import config_hash
from engine.knobs import EngineKnobs
from engine.server.options import ServeOptions
from engine.server.reports import Ready

__all__ = ["ServerIdentity"]


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Model, configuration and processes: what was asked for, and what is in effect."""

    options: ServeOptions
    requested: EngineKnobs
    ready: Ready
    engine_pid: int

    @property
    def model(self) -> str:
        """The name that clients send."""
        return self.options.served_model_name or self.options.model_path.resolve().name

    @property
    def started_at(self) -> float:
        """Unix time."""
        return self.ready.started_at

    @property
    def max_model_len(self) -> int:
        return int(self.ready.config["max_model_len"])

    def to_json(self) -> dict[str, Any]:
        ready, config = self.ready, dict(self.ready.config)
        return {
            "engine": f"autotune-engine {__version__}",
            "model": self.model,
            "model_path": str(self.options.model_path),
            "model_digest": ready.model_digest,
            "config": config,
            "config_hash": config_hash(config),
            "requested": self.requested.to_dict(),
            "started_at": ready.started_at,
            "pid": os.getpid(),
            "engine_pid": self.engine_pid,
            "limits": {
                "max_model_len": self.max_model_len,
                "max_prompt_tokens": self.max_model_len - 1,
                "max_num_seqs": config["max_num_seqs"],
                "max_queue_len": config["max_queue_len"],
            },
            "kv_cache": {
                "num_blocks": ready.num_blocks,
                "block_size": config["block_size"],
                "bytes": ready.kv_cache_bytes,
            },
            "memory": dict(ready.memory),
        }
