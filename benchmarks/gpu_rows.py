"""Check: what gpu_check finds, a JSON line at a time and as a table at the end; a part that fails costs its own row."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Check"]


class Check:
    """Rows so far, and the time left."""

    def __init__(self, budget_s: float) -> None:
        self._ends_s = time.monotonic() + budget_s
        self.rows: list[dict[str, Any]] = []
        self._notes: list[str] = []

    @property
    def left_s(self) -> float:
        return self._ends_s - time.monotonic()

    def note(self, text: str) -> None:
        """Something to tell beside the row being measured."""
        self._notes.append(text)

    def row(self, name: str, value: Any, goal: str, ok: bool | None, note: str = "") -> None:
        notes, self._notes = [*self._notes, note], []
        row = {"row": name, "value": value, "goal": goal, "ok": ok, "note": "; ".join(filter(None, notes))}
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def measure(self, name: str, goal: str, call: Callable[[], tuple[Any, bool | None]], need_s: float = 5) -> None:
        """A row with what `call` returns: its value, and whether that is good enough."""
        if self.left_s < need_s:
            self.row(name, None, goal, None, f"not measured: {self.left_s:.0f} s left of the time")
            return
        started_s = time.monotonic()
        try:
            value, ok = call()
        except Exception as error:  # noqa: BLE001  # the other rows are still wanted
            traceback.print_exc()
            self.row(name, None, goal, False, f"{type(error).__name__}: {str(error)[:200]}")
            return
        self.row(name, value, goal, ok, f"took {time.monotonic() - started_s:.1f} s")

    def guard(self, part: str, call: Callable[[], None]) -> None:
        """Run a part that makes its own rows; a row if it fails outside of them."""
        try:
            call()
        except Exception as error:  # noqa: BLE001  # the other parts are still wanted
            traceback.print_exc()
            self.row(part, None, "runs", False, f"{type(error).__name__}: {str(error)[:200]}")

    def error(self, name: str, call: Callable[[], float], limit: float) -> None:
        """A row with an error that may not exceed `limit`. NaN does."""

        def found() -> tuple[float, bool]:
            value = call()
            return float(f"{value:.2e}"), value <= limit

        self.measure(name, f"at most {limit:g}", found)

    def share(self, name: str, call: Callable[[], float], goal: float | None = None) -> None:
        """A row with a share of the copy bandwidth."""

        def found() -> tuple[float, bool | None]:
            value = call()
            return round(value, 3), None if goal is None else value >= goal

        self.measure(name, "-" if goal is None else f"at least {goal:g} of copy bandwidth", found)

    def table(self) -> str:
        """All rows as Markdown."""
        marks = {True: "yes", False: "NO", None: "-"}
        lines = ["| row | value | goal | met | note |", "|---|---|---|---|---|"]
        lines += [
            f"| {row['row']} | {row['value']} | {row['goal']} | {marks[row['ok']]} | {row['note']} |"
            for row in self.rows
        ]
        return "\n".join(lines)
