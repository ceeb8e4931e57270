"""EngineProcess: the process that holds the model, from its start to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from engine.errors import StartRefused
from engine.server.orders import Start
from engine.server.reports import Ready, Refused
from engine.server.wire import frame, receive_frame

__all__ = ["EngineProcess"]

END_TIMEOUT_S = 5.0
"""For the engine to end by itself once the socket is closed: it is within a step."""


def engine_environment() -> dict[str, str]:
    """Read by the OpenMP runtime when torch loads. A worker that sleeps between two kernels makes a decode step half as
    long again; one that spins as long as by default takes the cores from the HTTP side and from whatever shares the
    machine. This many turns bridge the gap between two kernels and not much more."""
    environment = dict(os.environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "10000")
    return environment


class EngineProcess:
    """A child of the server. It ends with the server, however that ends."""

    def __init__(self, start: Start) -> None:
        self.sock, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "engine.server.worker", str(theirs.fileno())]
            self._popen = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=engine_environment())
        self.sock.sendall(frame(start))

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_ready(self) -> Ready:
        """What it has loaded.

        Raises:
            StartRefused: it can't serve that, or ended before it could say so.
        """
        try:
            report = receive_frame(self.sock)
        except (EOFError, OSError) as error:
            raise self.death(self._popen.wait(), "while loading") from error
        if isinstance(report, Refused):
            raise StartRefused(report.kind, report.sentence)
        assert isinstance(report, Ready)
        return report

    def end(self) -> int:
        """Close the socket, wait for the process, kill it if need be; its exit code, -n for signal n."""
        self.sock.close()
        try:
            return self._popen.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()

    def death(self, code: int, when: str) -> StartRefused:
        """What to say of an engine that ended by itself."""
        if code == -signal.SIGKILL:
            return StartRefused(
                "oom",
                f"the engine's process was killed (SIGKILL) {when}; on Linux that is how the kernel ends what exhausts "
                "the memory",
            )
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return StartRefused("crash", f"the engine's process ended with {how} {when}")
