"""Console: rich progress with time left on stderr; results on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tools.redaction import printable

__all__ = ["RunProgress", "duration", "err", "out", "printable", "run_progress"]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def duration(seconds: float) -> str:
    """`2 min 05 s`, `40 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class RunProgress:
    """Shows a run: one line for the phase with the time left for the whole run, a bar for the load under way."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, left="") if bar else None
        self._started = time.monotonic()

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        left = f"about {duration(seconds_left)} left" if seconds_left else ""
        if self._bar is not None and self._task is not None:
            described = f"[bold]{escape(name)}[/] {escape(detail)}"
            self._bar.reset(self._task, description=described, total=None, left=left)
        else:
            self._line(f"{name}: {detail}" + (f" ({left})" if left else ""))

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def note(self, text: str) -> None:
        text = printable(text)  # a proposer may have written it, or a server's log
        if self._bar is not None:
            self._bar.console.print(f"  {escape(text)}")
        else:
            self._line(text)

    def _line(self, text: str) -> None:
        sys.stderr.write(f"[{duration(time.monotonic() - self._started):>12}] {text}\n")
        sys.stderr.flush()


@contextmanager
def run_progress() -> Iterator[RunProgress]:
    """A live display on a terminal, plain lines elsewhere. Always on stderr, so that stdout stays parseable."""
    if not err.is_terminal:
        yield RunProgress(None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[left]}[/]"),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        yield RunProgress(bar)
