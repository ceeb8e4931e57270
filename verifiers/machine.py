"""Machine: what the ledger says the machine can do at its best. A later look takes the former's place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.ledger import Entry

__all__ = ["Machine", "machine_of"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Measured rates, and the bounds that follow for the run's model and workload."""

    roofline: Mapping[str, Any]
    floors_ms: Mapping[str, float]
    physics: Mapping[str, Any]


def machine_of(entries: Iterable[Entry]) -> Machine:
    """By the last of the entries `survey` and `peak`: a survey of a busy machine finds too little, and its floors would
    refuse what is true; so the machine is looked at again before anything is refused by them, and the best counts."""
    found = Machine({}, {}, {})
    for entry in entries:
        if entry.kind in ("survey", "peak"):
            found = Machine(entry.data.get("roofline", {}), entry.data["floors"], entry.data.get("physics", {}))
    return found
