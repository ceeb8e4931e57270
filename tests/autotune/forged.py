"""Forgeries of a run's record, as somebody with an editor and a hash function would make them."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.harness import RunDir
from tools.canonical import canonical_json
from tools.ledger import GENESIS, Entry, Ledger

__all__ = ["FORGERIES", "Forgery", "copied", "rechained"]

Forgery = Callable[[RunDir, random.Random], str]
"""Changes a copy of a run in place, at a place that is drawn; returns what it did, for people."""


def copied(run: RunDir, place: Path) -> RunDir:
    """A copy of the run's ledger and raw records at `place`; hard links, so that thousands cost little."""
    place.mkdir(parents=True)
    shutil.copy2(run.ledger, place / "ledger.jsonl")
    (place / "raw").mkdir()
    for blob in (run.path / "raw").iterdir():
        (place / "raw" / blob.name).hardlink_to(blob)
    return RunDir(place)


def flipped_byte(run: RunDir, drawn: random.Random) -> str:
    """One byte of any file of the record, each byte as likely as another, is another one."""
    files = [run.ledger, *sorted((run.path / "raw").iterdir())]
    sizes = [file.stat().st_size for file in files]
    file = drawn.choices(files, sizes)[0]
    content = bytearray(file.read_bytes())
    place, by = drawn.randrange(len(content)), drawn.randrange(1, 256)
    content[place] ^= by
    file.unlink()  # the original shares its content by a hard link
    file.write_bytes(content)
    return f"byte {place} of {file.name} xor {by}"


def dropped_line(run: RunDir, drawn: random.Random) -> str:
    lines = run.ledger.read_bytes().splitlines(keepends=True)
    number = drawn.randrange(len(lines) - 1)  # a ledger without its last line is an earlier state of it
    run.ledger.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
    return f"line {number + 1} dropped"


def reordered_pair(run: RunDir, drawn: random.Random) -> str:
    lines = run.ledger.read_bytes().splitlines(keepends=True)
    one, other = drawn.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    run.ledger.write_bytes(b"".join(lines))
    return f"lines {one + 1} and {other + 1} exchanged"


def rechained_tail(run: RunDir, drawn: random.Random) -> str:
    """An entry before the commit's anchor says something else, and all after it is chained anew."""
    entries = list(Ledger.read(run.ledger))
    anchored = next(number for number, entry in enumerate(entries) if entry.kind == "publication")
    number = drawn.randrange(1, anchored + 1)

    def altered(entry: Entry, data: dict[str, Any]) -> None:
        if entry.seq == number:
            _alter(data, drawn)

    rechained(run, altered)
    return f"entry {number} altered and the chain rebuilt from there"


def rechained_whole(run: RunDir, drawn: random.Random) -> str:
    """Every entry is a second later than it was; figures and verdicts are as they were."""
    rechained(run, lambda entry, data: None, later_s=drawn.uniform(0.5, 100.0))
    return "the whole chain rebuilt, later"


def rechained_without_the_commit(run: RunDir, drawn: random.Random) -> str:
    """The tail is rebuilt without the entry that names the commit, so that nothing in it asks to be compared."""
    entries = list(Ledger.read(run.ledger))
    number = drawn.randrange(1, next(n for n, entry in enumerate(entries) if entry.kind == "publication"))

    def altered(entry: Entry, data: dict[str, Any]) -> None:
        if entry.seq == number:
            _alter(data, drawn)

    rechained(run, altered, without=("commit",))
    return f"entry {number} altered, the chain rebuilt without its commit"


FORGERIES: dict[str, Forgery] = {
    "flipped byte": flipped_byte,
    "dropped line": dropped_line,
    "reordered pair": reordered_pair,
    "re-chained tail": rechained_tail,
    "re-chained tail without its commit": rechained_without_the_commit,
    "re-chained whole": rechained_whole,
}


def rechained(
    run: RunDir,
    change: Callable[[Entry, dict[str, Any]], None],
    *,
    without: tuple[str, ...] = (),
    later_s: float = 0.0,
) -> None:
    """Rebuild the run's chain with `change` applied to the data of every entry; a forger's chain is whole in itself."""
    entries = [entry for entry in Ledger.read(run.ledger) if entry.kind not in without]
    lines, prev = [], GENESIS
    for number, entry in enumerate(entries):
        data = copy.deepcopy(dict(entry.data))
        change(entry, data)
        sealed = Entry.seal(number, entry.time + later_s, entry.kind, entry.key, data, prev)
        lines.append(canonical_json(sealed.to_json()) + b"\n")
        prev = sealed.hash
    run.ledger.write_bytes(b"".join(lines))


def _alter(data: dict[str, Any], drawn: random.Random) -> None:
    """One number or text somewhere in `data` is another one."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in list(items):
            if isinstance(item, dict | list) and item:
                walk(item)
            elif not (isinstance(key, str) and key.endswith("blob")):
                places.append((value, key))

    walk(data)
    where, key = drawn.choice(places) if places else (data, "noted")
    before = where[key] if places else None
    where[key] = before + 1 if isinstance(before, int | float) and not isinstance(before, bool) else f"{before}'"
