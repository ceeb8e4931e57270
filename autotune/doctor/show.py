"""The doctor's findings on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from autotune.console import out, printable
from autotune.doctor.check import Check
from autotune.doctor.endpoint import LlmProfile

__all__ = ["show"]

_INK = {"ok": "green", "warn": "yellow", "fail": "red"}


def show(checks: Sequence[Check], profile: LlmProfile | None) -> None:
    """A table of the checks, what to do below each that needs something, and the endpoint's profile."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for check in checks:
        table.add_row(f"[{_INK[check.status]}]{check.status}[/]", check.name, escape(printable(check.found)))
        if check.do:
            table.add_row("", "", f"[bold]{escape(check.do)}[/]")
    out.print(table)
    if profile is not None:
        out.print("\n[bold]The endpoint[/]")
        for name, value in profile.to_json().items():
            told = ", ".join(value) if isinstance(value, tuple) else "unknown" if value is None else str(value)
            out.print(f"  {name}: {escape(printable(told)) or '-'}")
