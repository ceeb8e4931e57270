"""Driver: what one engine does its own way. All else about a server process is ServerTarget's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prometheus_client.samples import Sample

from tools.profile.physics import ModelFacts
from tools.targets.control import ControlClient
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import Counters, MemoryNeed

__all__ = ["Driver", "Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """How a server is started: its words and the variables that it needs beside those of every process."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Driver(Protocol):
    """One engine, one model, the owner's settings. Pure but for the questions it asks a server over HTTP."""

    @property
    def name(self) -> str:
        """Of the engine, as knob tables and playbooks know it."""
        ...

    @property
    def knobs(self) -> KnobSpace:
        """The knobs that the deployment's config names."""
        ...

    @property
    def served_as(self) -> str:
        """What clients send as `model`."""
        ...

    @property
    def ready_path(self) -> str: ...

    @property
    def metrics_path(self) -> str | None:
        """Where its metrics are; None for an engine that counts nothing."""
        ...

    @property
    def model(self) -> Path:
        """The folder or file that is served."""
        ...

    def start(self, config: Config, host: str, port: int) -> Start:
        """How a server with `config` is started."""
        ...

    def asked(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        """The knobs that a command line and an environment set, read back from what the OS says of a process."""
        ...

    def effective(self, client: ControlClient, log: Path | None) -> dict[str, Value]:
        """The knobs that are in effect by the server's own word, over HTTP or in its log; those alone that it tells.

        Raises:
            ControlError: it doesn't answer as that engine does.
        """
        ...

    def version(self, client: ControlClient) -> str:
        """As the server states it; empty where it doesn't."""
        ...

    def serves(self, client: ControlClient) -> Path:
        """The folder or file that the server says it serves.

        Raises:
            ControlError: it doesn't answer as that engine does, or serves another name.
        """
        ...

    def started_at(self, samples: Sequence[Sample]) -> float | None:
        """Unix seconds, by the server's own word; None where it doesn't say."""
        ...

    def counters(self, samples: Sequence[Sample]) -> Counters: ...

    def reset_cache(self, client: ControlClient) -> None:
        """Empty the prefix cache.

        Raises:
            ControlError: it can't be emptied now.
        """
        ...

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """As `Target.narrowed`."""
        ...

    def memory(self, config: Config) -> MemoryNeed:
        """As `Target.memory`; a lower bound where the engine has no closed form.

        Raises:
            KnobError: values that don't go together.
        """
        ...

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        """As `Target.facts`."""
        ...

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        """As `Target.kv_sized`."""
        ...
