"""Hosted: the server processes that a target has started on loopback, by process id, and what the OS says of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from tools.targets.control import ControlClient, ControlError
from tools.targets.placement import Placement
from tools.targets.process import LOOPBACK, ServerProcess, free_port, port_is_open
from tools.targets.target import Endpoint, LaunchFailed

__all__ = ["Command", "Hosted", "environment_of", "started_at", "words_of"]

_PORT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Command:
    """What is executed: its words, its whole environment, and where it runs."""

    words: Sequence[str]
    environment: Mapping[str, str]
    placement: Placement | None = None


@dataclass
class Hosted:
    """Started servers. Whoever holds this owns the processes and leaves none behind."""

    running: dict[int, ServerProcess] = field(default_factory=dict)

    def start(
        self,
        command: Callable[[int], Command],
        *,
        served_as: str,
        ready_path: str,
        log: Path,
        timeout_s: float,
        check: Callable[[ControlClient, int], None],
    ) -> Endpoint:
        """Start what `command` makes for a free port and wait until it answers; a lost port is tried again.

        Args:
            served_as: the name to send as `model`.
            check: asked once the server is ready, with its process id; raises where it is another's server.

        Raises:
            LaunchFailed: it crashed, was refused or wasn't ready within `timeout_s`; nothing is left running.
        """
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                return self._start_on(free_port(), command, served_as, ready_path, log, timeout_s, check)
            except LaunchFailed as failure:
                if failure.kind != "port_taken" or attempt == _PORT_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _start_on(
        self,
        port: int,
        command: Callable[[int], Command],
        served_as: str,
        ready_path: str,
        log: Path,
        timeout_s: float,
        check: Callable[[ControlClient, int], None],
    ) -> Endpoint:
        base_url, made = f"http://{LOOPBACK}:{port}", command(port)
        process = ServerProcess(made.words, log=log, env=made.environment, placement=made.placement)
        try:
            ready_s = process.wait_ready(base_url, path=ready_path, timeout_s=timeout_s)
            try:
                check(ControlClient(base_url), process.pid)
            except LaunchFailed as failure:
                if failure.kind != "unreachable":
                    raise
                raise LaunchFailed("crash", f"ready, but then: {failure}", process.log_tail()) from failure
        except BaseException:
            process.stop(grace_s=0.0)
            raise
        self.running[process.pid] = process
        return Endpoint(base_url, served_as, process.pid, ready_s)

    @contextmanager
    def explained(self, endpoint: Endpoint) -> Iterator[None]:
        """Where no answer comes because the server has died, tell that, with its last words."""
        try:
            yield
        except ControlError as error:
            process = self.running.get(endpoint.pid)
            if process is None or process.exit_code is None:
                raise
            raise process.failure(process.exit_code, "the server died: ") from error

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        """Why the server has died, from its exit status and the end of its log; None while it lives."""
        process = self.running.get(endpoint.pid)
        code = process.exit_code if process else None
        return process.failure(code) if process and code is not None else None

    def log_of(self, endpoint: Endpoint) -> Path | None:
        """Where the words of the server go; None where it isn't ours."""
        process = self.running.get(endpoint.pid)
        return process.log if process else None

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        """Drain for at most `grace_s`, end the process group, and see that the port is closed.

        Raises:
            ControlError: something still listens on the port, so it isn't the server that we ended.
        """
        process = self.running.pop(endpoint.pid, None)
        if process is None:
            return
        process.stop(grace_s)
        if port_is_open(urlsplit(endpoint.base_url).port or 0):
            raise ControlError(f"{endpoint.base_url}: the server has ended, but something else listens on its port")

    def restore(self) -> tuple[str, ...]:
        """End every server that is still there, at once; which, a clause each. Servers of others are never touched, so
        there is nothing else to put back."""
        left = [self.running.pop(pid) for pid in tuple(self.running)]
        for process in left:
            process.stop(grace_s=0.0)
        return tuple(f"server process {process.pid} was still running, and is ended" for process in left)


def words_of(pid: int) -> tuple[str, ...]:
    """The command line of process `pid`, as the OS has it.

    Raises:
        ControlError: the process has ended.
    """
    return tuple(_proc(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0"))


def environment_of(pid: int) -> dict[str, str]:
    """The environment that process `pid` was started with, as the OS has it.

    Raises:
        ControlError: the process has ended.
    """
    pairs = _proc(pid, "environ").decode(errors="replace").split("\0")
    return {name: value for name, found, value in (pair.partition("=") for pair in pairs) if found}


def started_at(pid: int) -> float:
    """Unix seconds at which the OS started `pid`; proc(5): field 22 of stat, in clock ticks since boot.

    Of one process it is the same number whenever it is asked.

    Raises:
        ControlError: the process has ended.
    """
    fields = _proc(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return _wall_clock(int(fields[19]))


@lru_cache(maxsize=1024)
def _wall_clock(ticks: int) -> float:
    """Worked out once for each moment: two readings of the clock and of the uptime differ by some milliseconds."""
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime_s + ticks / os.sysconf("SC_CLK_TCK")


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError as error:
        raise ControlError(f"process {pid}, which answered a moment ago, has ended") from error
