"""ServerProcess: one server on loopback, started under supervision, watched until ready, and always reaped."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tools.redaction import redacted
from tools.targets import supervise
from tools.targets.control import ControlClient, ControlError
from tools.targets.failures import classify
from tools.targets.target import LaunchFailed

__all__ = ["ServerProcess", "allowed_environment", "free_port", "port_is_open"]

LOOPBACK = "127.0.0.1"
TAIL_LINES = 40
_ALLOWED = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "XDG_CACHE_HOME")
_ALLOWED_PREFIXES = ("LC_", "OMP_", "MKL_", "KMP_", "GOMP_", "CUDA_", "NVIDIA_", "TORCH_", "TRITON_", "HF_")
_QUIETENERS = ("DISABLE_TELEMETRY", "DO_NOT_TRACK", "VLLM_NO_USAGE_STATS")
_SECRET_WORDS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")


def allowed_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of `environment` (by default this process's) that a server may see: no key, no token, no injection."""
    source = os.environ if environment is None else environment
    return {
        name: value
        for name, value in source.items()
        if (name in _ALLOWED or name in _QUIETENERS or name.startswith(_ALLOWED_PREFIXES))
        and not any(word in name.upper() for word in _SECRET_WORDS)
    }


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago; another process may still be faster to take it."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def port_is_open(port: int) -> bool:
    """Does anything accept connections on this loopback port?"""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


class ServerProcess:
    """A command that runs until `stop`, and never longer than this process lives, however that ends.

    Output goes to `log`, which is begun anew at `log_cap_bytes`; the part before stays beside it as `LOG.1`.
    """

    def __init__(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, log_cap_bytes: int = 8 << 20
    ) -> None:
        """Start `argv`. `env` is the whole environment; by default what `allowed_environment` lets through.

        Raises:
            LaunchFailed: the supervisor couldn't be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        log.with_name(log.name + ".1").unlink(missing_ok=True)
        self.log = log
        self._started = time.monotonic()
        ours, theirs = socket.socketpair()
        options = ["--log", str(log), "--log-cap-bytes", str(log_cap_bytes)]
        try:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", supervise.__file__, *options, "--", *argv],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(env) if env is not None else allowed_environment(),
                start_new_session=True,  # Ctrl-C in a terminal is ours to handle, not the server's
            )
        except OSError as error:
            ours.close()
            raise LaunchFailed("crash", f"the server's supervisor couldn't be started: {error}") from error
        finally:
            theirs.close()
        self._leash = ours
        try:
            self.pid = self._read_pid()
        except BaseException:
            ours.close()  # a Ctrl-C in the moment of starting: the supervisor sees this and ends what it started
            self._supervisor.wait()
            raise

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop(grace_s=0.0 if kind else 10.0)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; else its exit status, 128 + n where signal n ended it."""
        return self._supervisor.poll()

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of what it printed, without secrets."""
        text = ""
        for part in (self.log.with_name(self.log.name + ".1"), self.log):
            with contextlib.suppress(FileNotFoundError):
                text += part.read_text(errors="replace")
        return redacted("\n".join(text.splitlines()[-lines:]))

    def wait_ready(self, base_url: str, *, path: str = "/health", timeout_s: float) -> float:
        """Wait until GET `path` answers 200; seconds since the start.

        Raises:
            LaunchFailed: it ended, or wasn't ready within `timeout_s` of its start; it has been stopped then.
        """
        client = ControlClient(base_url, timeout_s=2.0)
        while self.exit_code is None:
            with contextlib.suppress(ControlError):
                if client.request("GET", path)[0] == 200:
                    return time.monotonic() - self._started
            if time.monotonic() - self._started >= timeout_s:
                self.stop(grace_s=0.0)
                raise self.failure(None, f"not ready within {timeout_s:g} s; ")
            self._pause(0.05)
        self.stop(grace_s=0.0)
        raise self.failure(self.exit_code)

    def failure(self, exit_code: int | None, prefix: str = "") -> LaunchFailed:
        """Why it failed, by its exit status (None: it hangs) and what it printed last."""
        tail = self.log_tail()
        kind, sentence = classify(exit_code, tail, timed_out=exit_code is None)
        return LaunchFailed(kind, prefix + sentence, tail)

    def stop(self, grace_s: float = 10.0) -> int:
        """SIGTERM, `grace_s` to drain, SIGKILL to the whole group, reap; its exit status. Stopping twice does nothing.

        A server that ignores SIGTERM is gone at `grace_s` + 3 s at the latest.
        """
        if self.exit_code is None and grace_s > 0:
            self._supervisor.terminate()  # passed on to the group
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(grace_s)
        if self.exit_code is None:
            with contextlib.suppress(OSError):
                self._leash.send(b"K")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(supervise.LEFTOVER_GRACE_S + 2.0)
        if self.exit_code is None:
            self._supervisor.kill()  # the kernel then kills the server, which asked for that at its start
        self._leash.close()
        return self._supervisor.wait()

    def _read_pid(self) -> int:
        """The server's own process id, as its supervisor tells it; 0 if the supervisor died first."""
        self._leash.settimeout(10.0)
        word = b""
        with contextlib.suppress(OSError):
            while not word.endswith(b"\n") and (byte := self._leash.recv(1)):
                word += byte
        return int(word) if word.endswith(b"\n") else 0

    def _pause(self, seconds: float) -> None:
        """Sleep, but wake at once when the supervisor ends (its end of the leash closes then)."""
        select.select([self._leash], [], [], seconds)
