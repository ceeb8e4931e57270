"""ServerTarget: any engine that is a process of ours, started with flags and read over HTTP; a Driver knows which."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.samples import Sample

from tools.canonical import digest
from tools.errors import UserError
from tools.profile.physics import ModelFacts
from tools.targets.bundled import digest_of_model
from tools.targets.control import ControlClient
from tools.targets.drivers.driver import Driver
from tools.targets.hosted import Command, Hosted, environment_of, started_at, words_of
from tools.targets.knobs import Config, KnobSpace
from tools.targets.listening import listens
from tools.targets.placement import Placement
from tools.targets.process import LOOPBACK, allowed_environment
from tools.targets.scrape import scraped
from tools.targets.target import Counters, Endpoint, Identity, LaunchFailed, MemoryNeed

__all__ = ["ServerTarget"]


class ServerTarget:
    """Serves with `driver`'s engine, one process group per launch."""

    can_apply = True

    def __init__(self, driver: Driver, placement: Placement | None = None) -> None:
        """`placement`: where its servers run; None: wherever this process may."""
        self._driver, self._placement = driver, placement
        self._hosted = Hosted()

    @property
    def name(self) -> str:
        return self._driver.name

    @cached_property
    def knobs(self) -> KnobSpace:
        """The knobs that the deployment's config names; what it leaves unsaid stays the engine's own choice."""
        return self._driver.knobs

    def check(self) -> None:
        """Look for its program.

        Raises:
            UserError: there is none, or none that may be executed.
        """
        program = self._driver.start(Config({}), LOOPBACK, 0).words[0]
        if shutil.which(program, path=allowed_environment().get("PATH")) is None:
            raise UserError(
                f"target {self.name}: expected a program that can be executed, found none called {program}; "
                "name it under target: command:, or put it on PATH"
            )

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        if self._placement is not None:
            cores = min(cores, len(self._placement.cpus))
        return self._driver.narrowed(space, around, cores=cores, memory_bytes=memory_bytes)

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """Start the engine with `config` and wait until it answers; a port lost to another process is tried again.

        Raises:
            LaunchFailed: it crashed, was refused or wasn't ready within `timeout_s`; nothing is left running.
        """
        return self._hosted.start(
            lambda port: self._command(config, port),
            served_as=self._driver.served_as,
            ready_path=self._driver.ready_path,
            log=log,
            timeout_s=timeout_s,
            check=_require_own_port,
        )

    def identify(self, endpoint: Endpoint) -> Identity:
        """Who answers at `endpoint`: by the server's own word, and by the OS's record of the process and its command.

        `config_digest` is of the config with whatever the command line sets in place of what the server says: it is
        that of `config` where the two agree. A knob that the server doesn't tell is taken from the command line, and
        listed as `unreported`.

        Raises:
            LaunchFailed: the server has died, doesn't answer, or its process isn't the one that we started.
        """
        with self._hosted.explained(endpoint):
            client = ControlClient(endpoint.base_url)
            _require_own_port(client, endpoint.pid)
            names = self.knobs.knobs.keys()
            told = self._driver.effective(client, self._hosted.log_of(endpoint))
            told = {name: value for name, value in told.items() if name in names}
            asked = self._driver.asked(words_of(endpoint.pid), environment_of(endpoint.pid))
            asked = {name: value for name, value in asked.items() if name in names}
            served, version = self._driver.serves(client), self._driver.version(client)
            own_word = self._driver.started_at(self._samples(client))
        seen = started_at(endpoint.pid)
        chosen = {name: value for name, value in told.items() if self._is_auto(name, asked.get(name))}
        return Identity(
            model=endpoint.model,
            model_digest=digest_of_model(served),
            config={**asked, **told},
            config_digest=digest({**told, **asked, **chosen}),
            started_at=seen if own_word is None else own_word,
            process_started_at=seen,
            pid=endpoint.pid,
            engine=f"{self.name} {version}".strip(),
            unreported=tuple(sorted(asked.keys() - told.keys())),
        )

    def counters(self, endpoint: Endpoint) -> Counters:
        """Counters since the server's start.

        Raises:
            LaunchFailed: the server has died or doesn't answer.
        """
        with self._hosted.explained(endpoint):
            return self._driver.counters(self._samples(ControlClient(endpoint.base_url)))

    def reset_cache(self, endpoint: Endpoint) -> None:
        """Empty the prefix cache.

        Raises:
            LaunchFailed: the server has died, doesn't answer, or can't empty it now.
        """
        with self._hosted.explained(endpoint):
            self._driver.reset_cache(ControlClient(endpoint.base_url))

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        """Why the server has died, from its exit status and the end of its log; None while it lives."""
        return self._hosted.postmortem(endpoint)

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        """Drain for at most `grace_s`, end the process group, and see that the port is closed.

        Raises:
            ControlError: something still listens on the port, so it isn't the server that we ended.
        """
        self._hosted.stop(endpoint, grace_s)

    def restore(self) -> tuple[str, ...]:
        """End every server that is still there, at once; which, a clause each."""
        return self._hosted.restore()

    def model_digest(self) -> str:
        """The digest that a server of this model has to state."""
        return digest_of_model(self._driver.model)

    def memory(self, config: Config) -> MemoryNeed:
        return self._driver.memory(config)

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        return self._driver.facts(config, free)

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        return self._driver.kv_sized(config, kv_bytes)

    def _command(self, config: Config, port: int) -> Command:
        start = self._driver.start(config, LOOPBACK, port)
        if self._placement is not None:
            self._placement.check(start.words, start.environment)
        return Command(start.words, {**allowed_environment(), **start.environment}, self._placement)

    def _samples(self, client: ControlClient) -> list[Sample]:
        path = self._driver.metrics_path
        return [] if path is None else scraped(client, path)

    def _is_auto(self, name: str, value: object) -> bool:
        auto = self.knobs[name].auto
        return auto is not None and value == auto


def _require_own_port(client: ControlClient, pid: int) -> None:
    """By the OS's word, the process that listens is of the group that we started."""
    if not listens(pid, urlsplit(client.base_url).port or 0):
        raise LaunchFailed("port_taken", f"another process than the one that we started answers at {client.base_url}")
