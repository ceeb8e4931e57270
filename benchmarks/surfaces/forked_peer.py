"""ForkedPeer: launches of a peer by a fork server that has imported it once (`vllm_fork.py`)."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.surfaces import vllm_fork
from tools.targets.control import ControlClient, ControlError
from tools.targets.failures import classify
from tools.targets.process import ServerProcess
from tools.targets.target import LaunchFailed

__all__ = ["ForkedPeer"]

_IMPORT_S = 240.0
_POLL_S = 0.02
_TAIL_LINES = 60


class ForkedPeer:
    """A fork server and its children, one at a time. Leaving `running` ends them all."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    @contextmanager
    def running(cls, interpreter: str, environment: Mapping[str, str], log: Path) -> Iterator[ForkedPeer]:
        """The fork server, once it has imported what it forks.

        Raises:
            LaunchFailed: it hasn't within four minutes.
        """
        with TemporaryDirectory(prefix="forks-") as folder:
            path = Path(folder) / "socket"
            argv = [interpreter, str(vllm_fork.__file__), str(path)]
            with ServerProcess(argv, log=log, env=environment) as process:
                until = time.monotonic() + _IMPORT_S
                while not path.exists():
                    if process.exit_code is not None or time.monotonic() > until:
                        raise process.failure(process.exit_code)
                    time.sleep(0.1)
                yield cls(str(path))
                process.stop(grace_s=0.0)

    @contextmanager
    def serving(
        self, argv: Sequence[str], environment: Mapping[str, str], log: Path, base_url: str, timeout_s: float
    ) -> Iterator[float]:
        """A child that runs `argv` and answers at `base_url`/health; yields the seconds that it took to.

        Raises:
            LaunchFailed: it ended, or wasn't ready in time.
        """
        began, client = time.monotonic(), ControlClient(base_url, timeout_s=2.0)
        with socket.socket(socket.AF_UNIX) as leash:
            leash.connect(self._path)
            leash.sendall(json.dumps({"argv": list(argv), "env": dict(environment), "log": str(log)}).encode() + b"\n")
            said = leash.makefile()
            said.readline()  # its process id: the fork has been made
            leash.setblocking(False)
            while time.monotonic() - began < timeout_s:
                with contextlib.suppress(ControlError):
                    if client.request("GET", "/health")[0] == 200:
                        yield time.monotonic() - began
                        return
                with contextlib.suppress(BlockingIOError):
                    if code := leash.recv(16):
                        raise _failure(int(code), log)
                time.sleep(_POLL_S)
            raise _failure(None, log)


def _failure(code: int | None, log: Path) -> LaunchFailed:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
    kind, sentence = classify(code, tail, timed_out=code is None)
    return LaunchFailed(kind, sentence, tail)
