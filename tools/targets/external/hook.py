"""ApplyHook: the owner's program that makes an external server have a config."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tools.errors import UserError
from tools.redaction import redacted
from tools.targets.knobs import Config
from tools.targets.target import LaunchFailed

__all__ = ["ApplyHook"]

_KEPT_BYTES = 64 << 10
"Of what it prints; the rest is read and forgotten, so that it never waits for us."
_TAIL_CHARACTERS = 2000


class ApplyHook:
    """Runs `argv` in `folder`, without a shell, in a session of its own.

    It gets the config as one JSON object on stdin, each knob as AUTOTUNE_KNOB_<NAME> (JSON's spelling, without quotes),
    AUTOTUNE_CONFIG_DIGEST, and `told` beside; else the environment of whoever runs autotune: it is the owner's program
    and needs the owner's credentials. What it starts and leaves behind may live on, but must not print to its output.
    """

    def __init__(self, argv: Sequence[str], folder: Path, told: Mapping[str, str]) -> None:
        """
        Raises:
            UserError: no such program.
        """
        self._argv = [_program(argv[0], folder), *argv[1:]]
        self._folder = folder
        self._told = told
        self.name = " ".join(argv)

    def run(self, config: Config, *, log: Path | None, timeout_s: float) -> None:
        """Run it to its end. What it printed goes to `log`.

        Raises:
            LaunchFailed: it couldn't be started, took longer than `timeout_s` (it has been ended then, with all that it
                started), or ended with another status than 0.
        """
        with tempfile.TemporaryFile() as orders:
            orders.write(json.dumps(dict(config.values)).encode())
            orders.seek(0)
            try:
                process = subprocess.Popen(
                    self._argv,
                    cwd=self._folder,
                    env={**os.environ, **self._told, **_variables(config)},
                    stdin=orders,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchFailed("crash", f"apply: {self.name} couldn't be started: {error}") from error
        said = bytearray()
        assert process.stdout is not None
        reader = threading.Thread(target=_drain, args=(process.stdout, said), daemon=True)
        reader.start()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise LaunchFailed("timeout", f"apply: {self.name} took more than {timeout_s:g} s", _tail(said)) from None
        except BaseException:
            _end(process)  # a Ctrl-C
            raise
        reader.join(0.5)  # what it left behind may hold its output open for long
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(redacted(said.decode(errors="replace")))
        if code != 0:
            _end(process)
            raise LaunchFailed("bad_config", f"apply: {self.name} ended with status {code}", _tail(said))


def _program(word: str, folder: Path) -> str:
    found = str(folder / word) if "/" in word else shutil.which(word)
    if found is None or not os.access(found, os.X_OK) or Path(found).is_dir():
        raise UserError(f"target.apply: expected a program that may be executed, found none at {word!r}")
    return found


def _variables(config: Config) -> dict[str, str]:
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in config.values.items()}
    knobs = {f"AUTOTUNE_KNOB_{name.upper()}": value for name, value in values.items()}
    return {**knobs, "AUTOTUNE_CONFIG_DIGEST": config.digest}


def _drain(output: IO[bytes], said: bytearray) -> None:
    """Read to the end; keep the last bytes."""
    with contextlib.suppress(ValueError, OSError), output:
        while data := os.read(output.fileno(), 65536):
            said += data
            del said[:-_KEPT_BYTES]


def _tail(said: bytearray) -> str:
    return redacted(said.decode(errors="replace"))[-_TAIL_CHARACTERS:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its group, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
