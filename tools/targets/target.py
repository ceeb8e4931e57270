"""Target: something that serves a model, and the plain data that crosses that border."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tools.profile.physics import ModelFacts
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.trust import Trust

__all__ = ["Counters", "Endpoint", "FailureKind", "Identity", "LaunchFailed", "MemoryNeed", "Target"]

Counters = Mapping[str, float]
"""Server counters in one vocabulary: requests, prompt_tokens, generation_tokens, prefix_queries_tokens,
prefix_hit_tokens, preemptions, aborted, rejected, and of its own clock, in seconds: e2e_seconds_sum over
e2e_seconds_count answered requests (arrival to last token), ttft_seconds_sum over ttft_seconds_count (to the first).
A counter the engine doesn't export is absent, never zero."""

FailureKind = Literal["oom", "bad_config", "port_taken", "model_missing", "timeout", "crash", "unreachable"]


class LaunchFailed(Exception):
    """A launch that didn't become ready. `kind` classifies it; `log_tail` holds the last lines it printed."""

    def __init__(self, kind: FailureKind, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a launched server answers."""

    base_url: str
    "Scheme, host, port, and of somebody else's server the path that /v1 follows on: http://127.0.0.1:8000"
    model: str
    "The name to send as `model`."
    pid: int = 0
    "Leader of the server's process group; 0 for a server we didn't start."
    ready_s: float = 0.0
    "Seconds from launch to ready."
    api_key: str | None = None
    trust: Trust = field(default_factory=Trust)
    external: bool = False
    "Somebody else's: under a load it may change, vanish, or turn us away."


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server answers, from two independent sources: its own word over HTTP, and the OS's on the process."""

    model: str
    model_digest: str
    config: Mapping[str, Value]
    "The *effective* config, as the server reports it."
    config_digest: str
    "As the server's own /metrics or info endpoint states it."
    started_at: float
    "Unix seconds, as the server reports it."
    process_started_at: float
    "Unix seconds, from the OS; 0 where the process isn't ours."
    pid: int
    engine: str
    "Engine name and version."
    unreported: tuple[str, ...] = ()
    "Knobs of `config` that the server doesn't tell: the OS's record of its command line alone does."

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {
            "config": dict(self.config),
            "unreported": list(self.unreported),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Identity:
        return cls(**{**data, "unreported": tuple(data.get("unreported", ()))})


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Closed-form memory of a config, in bytes."""

    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    overhead_bytes: int
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_cache_bytes + self.activation_bytes + self.overhead_bytes


class Target(Protocol):
    """Something that serves a model. Implementations own their processes and leave none behind."""

    @property
    def name(self) -> str: ...

    @property
    def knobs(self) -> KnobSpace: ...

    @property
    def can_apply(self) -> bool:
        """Whether it can be given another config than the one that serves already."""
        ...

    def check(self) -> object:
        """Look whether it can serve at all, before anything is spent on it.

        Raises:
            UserError: its program or its server isn't there, or won't have us.
        """
        ...

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """The part of `space` that makes sense with the rest of `around` on a machine of that size, for a search."""
        ...

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """Start a server with `config` on a free loopback port and wait until it is ready.

        Raises:
            LaunchFailed: it crashed, was refused or wasn't ready within `timeout_s`; nothing is left running.
        """
        ...

    def identify(self, endpoint: Endpoint) -> Identity: ...

    def counters(self, endpoint: Endpoint) -> Counters: ...

    def reset_cache(self, endpoint: Endpoint) -> None: ...

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        """Why the server has died, classified; None while it lives, or where it isn't ours."""
        ...

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        """Drain, then end the whole process group. Does nothing if it has already ended."""
        ...

    def model_digest(self) -> str:
        """The digest that a server of the model has to state; read from the files, without launching."""
        ...

    def memory(self, config: Config) -> MemoryNeed:
        """What `config` needs, without launching it; a lower bound where the engine has no closed form.

        Raises:
            KnobError: values that don't go together.
        """
        ...

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        """What a token costs with `config`; of the knobs in `free`, with whichever value makes it cheapest.

        None where the model isn't known well enough: no floor and no ceiling then follows from the machine.
        """
        ...

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        """`config` with a KV cache as near to `kv_bytes` as its knobs allow, and never larger.

        Raises:
            KnobError: no knob of the target sets it, or none that the config names.
        """
        ...

    def restore(self) -> tuple[str, ...]:
        """Leave the target as a run found it: what had to be put back, a clause each. Doing so twice does nothing."""
        ...
