"""Ledger: the append-only, hash-chained record of everything that happened in a run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tools.blobs import BlobStore, fsync_directory
from tools.canonical import canonical_json, digest
from tools.errors import UserError

__all__ = ["GENESIS", "Entry", "Ledger", "LedgerView", "verify_chain"]

GENESIS = "0" * 64
"""`prev` of the first entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger. `hash` is the sha256 of the canonical JSON of all other fields."""

    seq: int
    "0, 1, 2 ... without a gap."
    time: float
    "Unix seconds."
    kind: str
    key: str | None
    "Idempotency key: no two entries of a ledger share one."
    data: Mapping[str, Any]
    prev: str
    "`hash` of the entry before; GENESIS in the first."
    hash: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "data": dict(self.data)}

    @classmethod
    def seal(cls, seq: int, at: float, kind: str, key: str | None, data: Mapping[str, Any], prev: str) -> Entry:
        """The entry with its hash computed. `data` is normalised to what a reader will find in the file."""
        plain = json.loads(canonical_json(dict(data)))
        body = {"seq": seq, "time": at, "kind": kind, "key": key, "data": plain, "prev": prev}
        return cls(**body, hash=digest(body))


class LedgerView:
    """A ledger as it was read: entries in order, looked up by key, and the blobs they refer to. Writes nothing.

    Entries refer to a blob by its sha256 under a field called `blob` or `..._blob`, at any depth of `data`.
    """

    def __init__(self, path: Path, entries: list[Entry]) -> None:
        self.path = path
        self._entries = entries
        self._blobs = BlobStore(path.parent / "raw")
        self._by_key = {entry.key: entry for entry in entries if entry.key is not None}

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def head(self) -> str:
        """Hash of the last entry: it stands for the whole chain before it."""
        return self._entries[-1].hash if self._entries else GENESIS

    def find(self, key: str) -> Entry | None:
        """The entry appended under `key`, if there is one."""
        return self._by_key.get(key)

    def of_kind(self, kind: str) -> list[Entry]:
        """All entries of `kind`, oldest first."""
        return [entry for entry in self._entries if entry.kind == kind]

    def get_blob(self, blob: str) -> bytes:
        """The bytes that were put under the digest `blob`.

        Raises:
            UserError: no such blob, or its content no longer has that digest.
        """
        return self._blobs.get(blob)

    def get_json(self, blob: str) -> Any:
        """The value that was put under the digest `blob`."""
        return json.loads(self.get_blob(blob))


class Ledger(LedgerView):
    """The one writer of a ledger file; every append is on disk before it returns.

    Opening repairs what a crash in mid-write leaves: a torn last line is moved to a side file, and `recovered` says so.
    """

    recovered: str | None
    "What opening had to repair, as a sentence; None where nothing was torn."

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Open `path` for appending, or create it.

        Raises:
            UserError: another process has it open, or its chain is broken.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        self._mutex = threading.Lock()
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _lock(self._fd, path)
            self.recovered = _mend_tail(self._fd, path)
            super().__init__(path, _load(path))
        except BaseException:
            os.close(self._fd)
            raise
        fsync_directory(path.parent)

    @staticmethod
    def read(path: Path) -> LedgerView:
        """Read `path` without locking or changing it; a torn last line is left out.

        Raises:
            UserError: no such file, or its chain is broken.
        """
        if not path.is_file():
            raise UserError(f"{path}: expected a ledger, found no such file")
        return LedgerView(path, _load(path))

    def append(self, kind: str, data: Mapping[str, Any], key: str | None = None) -> Entry:
        """Add one entry and return it once it is on disk.

        Raises:
            UserError: an entry with this `key` exists, or the disk is full (then the ledger is as it was).
            ValueError, TypeError: `data` isn't JSON.
        """
        with self._mutex:
            if key is not None and key in self._by_key:
                raise UserError(
                    f"{self.path}: the ledger already holds an entry with key {key!r} (entry {self._by_key[key].seq}); "
                    "what is done once must not be recorded twice"
                )
            entry = Entry.seal(len(self), self._clock(), kind, key, data, self.head)
            _write_whole(self._fd, canonical_json(entry.to_json()) + b"\n", self.path)
            self._entries.append(entry)
            if key is not None:
                self._by_key[key] = entry
            return entry

    def put_blob(self, content: bytes | Any) -> str:
        """Store bytes, or a JSON value as canonical JSON, in `raw/` beside the ledger; returns its sha256."""
        return self._blobs.put(content)

    def close(self) -> None:
        """Release the lock. Closing twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def verify_chain(path: Path, *, anchor: str | None = None) -> list[str]:
    """Every problem of the ledger at `path`, one sentence each; empty when the chain and all its blobs are whole.

    A chain that was cut or rebuilt from some entry on is whole in itself. `anchor`, a head that was noted elsewhere
    (in a commit's trailer), shows it: it must be the hash of some entry.
    """
    if not path.is_file():
        return [f"{path}: no such file"]
    lines, torn = _split(path.read_bytes())
    problems = [f"line {len(lines) + 1}: torn, it doesn't end with a newline"] if torn else []
    prev = GENESIS
    hashes = set()
    blobs: dict[str, int] = {}
    keys: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        entry, problem = _parse(line, number - 1, prev)
        if problem:
            problems.append(f"line {number}: {problem}")
        if entry is None:
            continue
        prev = entry.hash
        hashes.add(entry.hash)
        if entry.key is not None and keys.setdefault(entry.key, number) != number:
            problems.append(f"line {number}: {entry.key!r} was done once already, by line {keys[entry.key]}")
        for blob in _blobs_in(entry.data):
            blobs.setdefault(blob, number)
    store = BlobStore(path.parent / "raw")
    for blob, number in blobs.items():
        if missing := store.problem(blob):
            problems.append(f"line {number}: {missing}")
    if anchor is not None and anchor not in hashes:
        problems.append(f"no entry has the anchored hash {anchor}: the chain was cut or rebuilt after it was noted")
    return problems


def _load(path: Path) -> list[Entry]:
    entries: list[Entry] = []
    lines, _torn = _split(path.read_bytes())
    for number, line in enumerate(lines, start=1):
        entry, problem = _parse(line, number - 1, entries[-1].hash if entries else GENESIS)
        if problem or entry is None:
            raise UserError(
                f"{path}, line {number}: the ledger's chain is broken: {problem}. It was changed after it was written, "
                "so nothing in it can be trusted; start a new run"
            )
        entries.append(entry)
    return entries


def _split(raw: bytes) -> tuple[list[bytes], bytes]:
    """Whole lines, and what follows the last newline."""
    *lines, tail = raw.split(b"\n")
    return lines, tail


def _parse(line: bytes, seq: int, prev: str) -> tuple[Entry | None, str]:
    """The entry on `line` and what is wrong with it, if anything; no entry where the line can't be read at all."""
    try:
        fields = json.loads(line)
        entry = Entry(**fields)
        body = {name: value for name, value in fields.items() if name != "hash"}
        if not _well_typed(entry):
            return None, "it is not a ledger entry"
        if canonical_json(fields) != line:
            return entry, "it is not in the canonical form in which entries are written"
        if digest(body) != entry.hash:
            return entry, f"entry {entry.seq} doesn't have the hash it states"
    except (ValueError, TypeError, RecursionError):
        return None, "it is not a ledger entry"
    if entry.seq != seq:
        return entry, f"expected entry {seq}, found entry {entry.seq} (dropped, added or reordered)"
    if entry.prev != prev:
        return entry, f"entry {entry.seq} doesn't follow from the entry before it"
    return entry, ""


def _well_typed(entry: Entry) -> bool:
    strings = isinstance(entry.kind, str) and isinstance(entry.prev, str) and isinstance(entry.hash, str)
    key = entry.key is None or isinstance(entry.key, str)
    return strings and key and type(entry.seq) is int and isinstance(entry.data, dict)


def _mend_tail(fd: int, path: Path) -> str | None:
    """Keep a whole last entry that only lacks its newline; move anything less to a side file."""
    raw = path.read_bytes()
    lines, tail = _split(raw)
    if not tail:
        return None
    before = _parse(lines[-1], len(lines) - 1, "")[0] if lines else None
    entry, problem = _parse(tail, len(lines), before.hash if before else GENESIS)
    if entry is not None and not problem:
        _write_whole(fd, b"\n", path)
        return f"{path}: completed the last entry, which lacked its newline"
    side = path.with_name(f"{path.name}.torn-{hashlib.sha256(tail).hexdigest()[:12]}")
    side.write_bytes(tail)
    os.ftruncate(fd, len(raw) - len(tail))
    os.fsync(fd)
    return f"{path}: a crash tore the last line; its {len(tail)} bytes were moved to {side.name}"


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{path}: expected to be its only writer, but another process has this ledger open; "
            "wait for that run to end, or stop it"
        ) from None


def _write_whole(fd: int, line: bytes, path: Path) -> None:
    """Append `line` and flush it to disk; on failure the file keeps its former length."""
    size = os.fstat(fd).st_size
    try:
        written = os.write(fd, line)
        if written < len(line):
            raise OSError("only a part could be written")
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise UserError(f"{path}: can't append to the ledger: {error}; free some disk space and resume") from error


def _blobs_in(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _blobs_in(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _blobs_in(item, name)
    elif isinstance(value, str) and (name == "blob" or name.endswith("_blob")):
        yield value
