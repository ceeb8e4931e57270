"""Check: one thing that was looked at, how it stands, and what to do where it doesn't stand well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Check", "Status", "worst"]

Status = Literal["ok", "warn", "fail"]
_ORDER: tuple[Status, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Check:
    """`fail` keeps something from working at all, `warn` makes a result worse or less sure."""

    name: str
    status: Status
    found: str
    do: str = ""
    "What to do; empty where nothing is to be done."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def worst(checks: Iterable[Check]) -> Status:
    """The worst status among `checks`; `ok` where there is none."""
    return max((check.status for check in checks), key=_ORDER.index, default="ok")
