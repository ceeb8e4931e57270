"""PythonScorer: a user's scoring function, run in a process of its own without a network, its output read as data."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from tools.errors import UserError

__all__ = ["PythonScorer", "ScorerFailed", "require_isolation"]

_CHILD = Path(__file__).with_name("scorer_child.py")
_NO_ISOLATION, _SIGNALLED = 97, 128
"As in scorer_child.py."
_MOST_OUTPUT = 1 << 20
"Bytes of scores that are read; more is no list of scores."
_KEPT_STDERR = 400
_CHUNK = 1 << 16
_READING_S = 5.0
"For what was in the pipes when the last writer ended."
_ENVIRONMENT = ("LANG", "LC_ALL", "TZ")
"All that a scorer sees of our environment: no keys, no proxies, no paths."


class ScorerFailed(Exception):
    """The function gave no scores. The sentence says why."""


@dataclass(frozen=True)
class PythonScorer:
    """`function` of `file`, called as function(item, answer) -> 0..1 for each pair."""

    file: Path
    "What it is called by in a traceback."
    source: str
    "Its text as it was hashed; the file may be another by the time it runs."
    function: str
    time_limit_s: float
    memory_limit_bytes: int

    def scores(self, pairs: Sequence[tuple[dict[str, Any], str]]) -> list[float]:
        """The score of each (item, answer).

        Raises:
            ScorerFailed: it raised, took too long or too much memory, wanted a network, or returned no numbers in 0..1.
            UserError: this machine can't take a process's network away.
        """
        require_isolation()
        said, errors, code = self._run(pairs)
        if code != 0:
            raise ScorerFailed(f"{self._name}: {_ending(code)}: {errors.strip()[-_KEPT_STDERR:]}")
        return _read(said, len(pairs), self._name)

    @property
    def _name(self) -> str:
        return f"{self.file.name}:{self.function}"

    def _run(self, pairs: Sequence[tuple[dict[str, Any], str]]) -> tuple[bytes, str, int]:
        reading, writing = os.pipe()
        job = {
            "file": str(self.file),
            "source": self.source,
            "function": self.function,
            "result_fd": writing,
            "memory_bytes": self.memory_limit_bytes,
            "seconds": math.ceil(self.time_limit_s) + 1,
            "pairs": [[item, answer] for item, answer in pairs],
        }
        with tempfile.TemporaryDirectory() as folder, os.fdopen(reading, "rb") as results:
            try:
                child = subprocess.Popen(
                    [sys.executable, "-I", str(_CHILD)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env=_environment(),
                    pass_fds=(writing,),
                    start_new_session=True,
                )
            finally:
                os.close(writing)
            assert child.stdin is not None and child.stderr is not None
            # Read beside the wait: a pipe holds 64 KiB, and whoever fills it waits for ever.
            said, errors = _End(results, _MOST_OUTPUT, of_all=False), _End(child.stderr, _KEPT_STDERR, of_all=True)
            try:
                with (
                    suppress(BrokenPipeError),
                    child.stdin,
                ):  # it may end before it read its job, and tells by its status
                    child.stdin.write(json.dumps(job).encode())
                child.wait(timeout=self.time_limit_s)
            except subprocess.TimeoutExpired:
                raise ScorerFailed(f"{self._name}: ended after {self.time_limit_s:g} s without a result") from None
            finally:
                _end(child)
                said.join(timeout=_READING_S)
                errors.join(timeout=_READING_S)
                child.stderr.close()
            return said.kept, errors.kept.decode(errors="replace"), child.returncode


class _End(threading.Thread):
    """Reads a pipe to its end beside whoever waits, and keeps so many bytes: the last, or the first and no more."""

    def __init__(self, pipe: IO[bytes], most: int, *, of_all: bool) -> None:
        super().__init__(daemon=True)
        self._pipe, self._most, self._of_all = pipe, most, of_all
        self.kept = b""
        self.start()

    def run(self) -> None:
        while more := os.read(self._pipe.fileno(), _CHUNK):
            self.kept = (self.kept + more)[-self._most :] if self._of_all else (self.kept + more)[: self._most]


@cache
def require_isolation() -> None:
    """Check once that a process's network can be taken away here.

    Raises:
        UserError: it can't. There is no weaker way: a scorer that could reach the server could change what it says.
    """
    done = subprocess.run([sys.executable, "-I", str(_CHILD), "--check"], env=_environment(), check=False, timeout=60)
    if done.returncode != 0:
        raise UserError(
            "evals: a Python scorer runs in a network and a process namespace of its own, and this system gives none "
            "(Linux with unprivileged user namespaces is needed: sysctl kernel.unprivileged_userns_clone=1, or in a "
            "container a seccomp profile that allows unshare). Use the scorers exact, regex or json_schema here"
        )


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


def _end(child: subprocess.Popen[bytes]) -> None:
    """The whole process group. With it ends the first process of the scorer's namespace, and with that all in it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _ending(code: int) -> str:
    if code == _NO_ISOLATION:
        return "no namespace of its own was to be had"
    return f"killed by {signal.Signals(code - _SIGNALLED).name}" if code > _SIGNALLED else f"ended with status {code}"


def _read(said: bytes, count: int, name: str) -> list[float]:
    try:
        scores = json.loads(said)
    except ValueError:
        raise ScorerFailed(f"{name}: expected {count} scores, found {said[:100]!r}") from None
    if not isinstance(scores, list) or len(scores) != count:
        raise ScorerFailed(f"{name}: expected {count} scores, found {str(scores)[:100]}")
    for score in scores:
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            raise ScorerFailed(f"{name}: expected scores from 0 to 1, found {str(score)[:100]}")
    return [float(score) for score in scores]
