"""KillSwitch: a file or a signal that ends a run before its next effect."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

__all__ = ["KillSwitch", "Stopped"]


class Stopped(Exception):
    """The run was told to stop, or a budget is spent. Nothing is lost: `autotune resume` goes on."""


class KillSwitch:
    """`touch runs/<id>/STOP` stops a run; so do SIGTERM and Ctrl-C, at once and with everything reaped."""

    def __init__(self, run_dir: Path) -> None:
        self.file = run_dir / "STOP"

    def check(self) -> None:
        """
        Raises:
            Stopped: the file is there.
        """
        if self.file.exists():
            raise Stopped(f"kill switch: {self.file} exists; remove it and resume to go on")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While open, SIGTERM acts like Ctrl-C: it raises KeyboardInterrupt where the run stands; cleanup runs."""
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
