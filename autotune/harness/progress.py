"""Progress: what a run tells a person while it works."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """Told what goes on; shows it or doesn't."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        """A step of the run begins. `seconds_left` foresees the rest of the whole run."""

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        """Requests answered in the load that is under way."""

    def note(self, text: str) -> None:
        """Something worth a line that stays."""


class Silent:
    """Shows nothing."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        return None

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        return None

    def note(self, text: str) -> None:
        return None
