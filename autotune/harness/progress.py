"""Progress: what a run tells a person while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tools.redaction import redacted

__all__ = ["Discreet", "Progress", "Silent"]


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


@dataclass(frozen=True, slots=True)
class Discreet:
    """Passes on what a run tells, without secrets: a server's log or a model's words may hold one."""

    told: Progress

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        self.told.phase(name, redacted(detail), seconds_left)

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        self.told.requests(done, total, seconds_left)

    def note(self, text: str) -> None:
        self.told.note(redacted(text))
