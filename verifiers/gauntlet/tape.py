"""Tape: the ledger of a run that never was, in memory; sealed and chained like a real one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.ledger import GENESIS, Entry, LedgerView

__all__ = ["Held", "Tape", "resealed"]


class Held(LedgerView):
    """A ledger whose raw data is in memory. It has no file."""

    def __init__(self, entries: Iterable[Entry], blobs: Mapping[str, Any]) -> None:
        super().__init__(Path("gauntlet/ledger.jsonl"), list(entries))
        self._held = blobs

    def get_json(self, blob: str) -> Any:
        return self._held[blob]


@dataclass
class Tape:
    """Entries are written one after the other; time goes on between them."""

    now: float
    "Unix seconds."
    entries: list[Entry] = field(default_factory=list)
    blobs: dict[str, Any] = field(default_factory=dict)

    def write(self, kind: str, data: Mapping[str, Any], key: str | None = None, after_s: float = 0.01) -> Entry:
        """Append an entry `after_s` seconds after the one before."""
        self.now += after_s
        prev = self.entries[-1].hash if self.entries else GENESIS
        self.entries.append(Entry.seal(len(self.entries), self.now, kind, key, data, prev))
        return self.entries[-1]

    def put(self, value: Any) -> str:
        """Keep raw data; returns its digest. What isn't a number is kept too: a liar may have said so."""
        name = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        self.blobs[name] = value
        return name

    @property
    def ledger(self) -> Held:
        return Held(self.entries, self.blobs)


def resealed(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """`entries` numbered and chained anew, as a forger would who can compute a hash.

    One whose `hash` is empty, or whose place has changed, is sealed again.
    """
    chained: list[Entry] = []
    for entry in entries:
        prev = chained[-1].hash if chained else GENESIS
        kept = bool(entry.hash) and (entry.seq, entry.prev) == (len(chained), prev)
        chained.append(entry if kept else Entry.seal(len(chained), entry.time, entry.kind, entry.key, entry.data, prev))
    return tuple(chained)
