"""ServerProcess: one server on loopback, started under supervision, watched until ready, and always reaped."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tools.redaction import printable, redacted
from tools.targets import supervise
from tools.targets.control import ControlClient, ControlError
from tools.targets.environment import allowed_environment
from tools.targets.failures import READ_LINES, classify
from tools.targets.placement import Placement
from tools.targets.target import LaunchFailed

__all__ = ["ServerProcess", "allowed_environment", "free_port", "port_is_open"]

LOOPBACK = "127.0.0.1"
TAIL_LINES = 40
_TAIL_BYTES = 1 << 18
"Of a log's end that are read: a line may be endless."
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_POLL_S = 0.05
_KILLED_WITHIN_S = supervise.LEFTOVER_GRACE_S + 2.0
"From the order to kill until everything is reaped."
_SUPERVISOR_STARTS_S = 60.0
"Of a machine so busy that Python's start takes seconds."


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
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        placement: Placement | None = None,
        log_cap_bytes: int = 8 << 20,
    ) -> None:
        """Start `argv`. `env` is the whole environment; by default what `allowed_environment` lets through.

        Raises:
            LaunchFailed: the log can't be written, or the supervisor couldn't be started.
        """
        self.log = log
        self._begin_log()
        self._started = time.monotonic()
        ours, theirs = socket.socketpair()
        options = ["--log", str(log), "--log-cap-bytes", str(log_cap_bytes)]
        options += placement.options() if placement is not None else ()
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
        """None while it runs; else its exit status, 128 + n where signal n ended it.

        Where it has ended a moment ago, what it left behind is being reaped, and waited for.
        """
        if self._supervisor.poll() is None and self._leash.fileno() >= 0 and self._ends_within(0.0):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(_KILLED_WITHIN_S)
        return self._supervisor.poll()

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of what it printed, of its last 256 KiB, without secrets and what isn't text."""
        tail = b""
        for part in (self.log, self._older_log):
            if len(tail) < _TAIL_BYTES:
                tail = _end_of(part, _TAIL_BYTES - len(tail)) + tail
        text = _COLOURS.sub("", tail.decode(errors="replace"))
        return redacted(printable("\n".join(text.splitlines()[-lines:])))

    def wait_ready(self, base_url: str, *, path: str = "/health", timeout_s: float) -> float:
        """Wait until GET `path` answers 200; seconds since the start.

        Raises:
            LaunchFailed: it ended, or wasn't ready within `timeout_s` of its start; it has been stopped then.
        """
        client = ControlClient(base_url, timeout_s=2.0)
        left_s = self._started + timeout_s - time.monotonic()
        late = threading.Event()
        limit = threading.Timer(max(0.0, left_s), self._expire, [late])  # an answer that never ends isn't waited for
        limit.daemon = True
        limit.start()
        try:
            while self.exit_code is None and time.monotonic() < self._started + timeout_s + _KILLED_WITHIN_S:
                with contextlib.suppress(ControlError):
                    ready = client.request("GET", path)[0] == 200 and not late.is_set()
                    if ready and self.exit_code is None:
                        return time.monotonic() - self._started
                self._ends_within(_POLL_S)
        finally:
            limit.cancel()
        self.stop(grace_s=0.0)
        if late.is_set():
            raise self.failure(None, f"not ready within {timeout_s:g} s; ")
        if self.exit_code == 0:
            raise self.failure(
                0, "a server has to stay in the foreground, without --daemon or `&` in a script of its; "
            )
        raise self.failure(self.exit_code)

    def failure(self, exit_code: int | None, prefix: str = "") -> LaunchFailed:
        """Why it failed, by its exit status (None: it hangs) and what it printed last."""
        kind, sentence = classify(exit_code, self.log_tail(READ_LINES), timed_out=exit_code is None)
        return LaunchFailed(kind, prefix + sentence, self.log_tail())

    def stop(self, grace_s: float = 10.0) -> int:
        """SIGTERM, `grace_s` to drain, SIGKILL to the whole group, reap; its exit status. Stopping twice does nothing.

        A server that ignores SIGTERM is gone at `grace_s` + 3 s at the latest. A Ctrl-C meanwhile ends it at once.
        """
        try:
            if self.exit_code is None and grace_s > 0:
                self._supervisor.terminate()  # passed on to the group
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._supervisor.wait(grace_s)
        finally:
            self._kill()
        return self._supervisor.wait()

    def _kill(self) -> None:
        """End whatever still runs of it, once."""
        if self._leash.fileno() < 0:
            return
        if self.exit_code is None:
            self._ask_to_kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(_KILLED_WITHIN_S)
        if self.exit_code is None:
            self._supervisor.kill()  # the kernel then kills the server, which asked for that at its start
        self._leash.close()
        if self._supervisor.wait() < 0 and self.pid:  # it was killed, and couldn't end the rest of the group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _ask_to_kill(self) -> None:
        with contextlib.suppress(OSError):
            self._leash.send(b"K")

    def _expire(self, late: threading.Event) -> None:
        late.set()
        self._ask_to_kill()

    @property
    def _older_log(self) -> Path:
        return self.log.with_name(self.log.name + ".1")

    def _begin_log(self) -> None:
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._older_log.unlink(missing_ok=True)
            self.log.write_bytes(b"")
        except OSError as error:
            raise LaunchFailed(
                "crash", f"the server's log {self.log} can't be written: {error.strerror}; make room or choose a folder"
            ) from error

    def _read_pid(self) -> int:
        """The server's own process id, as its supervisor tells it; 0 if the supervisor died first.

        Raises:
            LaunchFailed: the machine is too busy to start even that.
        """
        self._leash.settimeout(_SUPERVISOR_STARTS_S)
        word = b""
        try:
            while not word.endswith(b"\n") and (byte := self._leash.recv(1)):
                word += byte
        except TimeoutError:
            raise LaunchFailed(
                "timeout",
                f"the server's supervisor didn't start within {_SUPERVISOR_STARTS_S:g} s: the machine is too busy",
            ) from None
        except OSError:
            return 0
        return int(word) if word.endswith(b"\n") else 0

    def _ends_within(self, seconds: float) -> bool:
        """Wait until the server ends, which its supervisor tells by closing its end of the leash; whether it did."""
        poller = select.poll()
        poller.register(self._leash, select.POLLIN)
        return bool(poller.poll(seconds * 1000))


def _end_of(file: Path, size: int) -> bytes:
    """The last `size` bytes of `file`; nothing where it can't be read."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - size))
            return opened.read(size)
    except OSError:
        return b""
