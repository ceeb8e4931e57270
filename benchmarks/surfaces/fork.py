"""ForkTarget: the bundled engine, each launch a fork of a process that has imported it once.

A launch is a process of its own that reads the weights anew; what it is spared are two interpreters and the import of
torch, two seconds of every launch. The server's memory and threads are its own, and its command line is the fork
server's: who answers is told by its process id.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from engine.errors import StartRefused
from engine.knobs import EngineKnobs
from engine.limits import context_limit
from engine.listening import bound_socket
from engine.model_config import ModelConfig
from engine.server.main import serve
from engine.server.options import ServeOptions
from engine.server.orders import Start
from engine.server.process import EngineProcess
from engine.server.reports import Ready, Refused
from engine.server.wire import frame, receive_frame
from engine.server.worker import die_with
from engine.server.worker import main as work
from tools.targets.bundled import BundledTarget
from tools.targets.control import ControlClient, ControlError
from tools.targets.failures import classify
from tools.targets.knobs import Config, Value
from tools.targets.process import LOOPBACK, free_port
from tools.targets.target import Endpoint, LaunchFailed

__all__ = ["ForkTarget"]

_POLL_S = 0.01
_TAIL_LINES = 40
_PRELOADED = [__name__, "engine.loading", "engine.kernels.choice", "transformers", "tokenizers"]


class ForkTarget(BundledTarget):
    """Serves as BundledTarget does. Use it from one thread."""

    name = "bundled"

    def __init__(self, model_dir: Path) -> None:
        super().__init__(model_dir)
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(_PRELOADED)
        self._servers: dict[int, multiprocessing.process.BaseProcess] = {}
        self._log = Path(os.devnull)

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """As BundledTarget.launch; a port lost to another process is a failure here."""
        began, port, self._log = time.monotonic(), free_port(), log
        server = self._forks.Process(target=_serve, args=(self.model_dir, dict(config.values), port, log))
        server.start()
        assert server.pid is not None
        base_url = f"http://{LOOPBACK}:{port}"
        client = ControlClient(base_url, timeout_s=2.0)
        try:
            while server.exitcode is None and time.monotonic() - began < timeout_s:
                with contextlib.suppress(ControlError):
                    if client.request("GET", "/health")[0] == 200:
                        ready_s = time.monotonic() - began
                        self._servers[server.pid] = server
                        return Endpoint(base_url, self.model_dir.name, server.pid, ready_s)
                time.sleep(_POLL_S)
            raise self._failure(server.exitcode)
        finally:
            if server.pid not in self._servers:
                _end(server, 0.0)

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        server = self._servers.get(endpoint.pid)
        return self._failure(server.exitcode) if server is not None and server.exitcode is not None else None

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        server = self._servers.pop(endpoint.pid, None)
        if server is not None:
            _end(server, grace_s)

    def _failure(self, code: int | None) -> LaunchFailed:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        kind, sentence = classify(code, tail, timed_out=code is None)
        return LaunchFailed(kind, sentence, tail)

    def _require_command(self, endpoint: Endpoint) -> None:
        """A fork has its parent's command line; it is ours if we have started it and it lives."""
        server = self._servers.get(endpoint.pid)
        if server is None or server.exitcode is not None:
            raise ControlError(f"{endpoint.base_url}: process {endpoint.pid} isn't running")


def _end(server: multiprocessing.process.BaseProcess, grace_s: float) -> None:
    if grace_s > 0:
        server.terminate()
        server.join(grace_s)
    if server.exitcode is None:
        server.kill()
    server.join()


class _ForkedEngine(EngineProcess):
    """The engine's process as a fork of the server's, not a new interpreter."""

    def __init__(self, start: Start) -> None:
        self.sock, theirs = socket.socketpair()
        self._child = os.fork()
        self._status: int | None = None
        if self._child == 0:
            self.sock.close()
            os._exit(work(theirs.detach()))
        theirs.close()
        self.sock.sendall(frame(start))

    @property
    def pid(self) -> int:
        return self._child

    def wait_ready(self) -> Ready:
        try:
            report = receive_frame(self.sock)
        except (EOFError, OSError) as error:
            raise self.death(self.end(), "while loading") from error
        if isinstance(report, Refused):
            raise StartRefused(report.kind, report.sentence)
        assert isinstance(report, Ready)
        return report

    def end(self) -> int:
        if self._status is None:
            self.sock.close()  # the engine ends by itself, within a step
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        return self._status


def _end_with_recorder() -> None:
    """Whoever asked for this server is gone, however that happened: so is the server, and its engine with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _serve(model_dir: Path, values: Mapping[str, Value], port: int, log: Path) -> None:
    """In the fork: what `python -m engine serve` does."""
    die_with(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    try:
        knobs = EngineKnobs.from_values(values)
        options = ServeOptions(model_dir, model_dir.name, drain_timeout_s=1.0)
        with bound_socket(LOOPBACK, port) as sock:
            context_limit(knobs, ModelConfig.load(model_dir))
            process = _ForkedEngine(Start(model_dir, knobs, os.getpid()))
            threading.Thread(target=_end_with_recorder, daemon=True).start()
            try:
                code = serve(process, options, knobs, sock)
            finally:
                process.end()
    except StartRefused as refused:
        print(f"engine: error: {refused.kind}: {refused.sentence}", file=sys.stderr, flush=True)
        code = 2
    sys.stderr.flush()
    os._exit(code)
