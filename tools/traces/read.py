"""read_log: any of the known logs, told apart by its first lines, as a TraceLog."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from random import Random
from typing import BinaryIO, cast

from tools.errors import UserError
from tools.traces.formats.bundled import BUNDLED
from tools.traces.formats.mooncake import MOONCAKE
from tools.traces.formats.proxy import PROXY
from tools.traces.formats.reader import Lines, Reader
from tools.traces.formats.sglang import SGLANG_JSON, SGLANG_TEXT
from tools.traces.formats.tables import AZURE, BURSTGPT
from tools.traces.formats.vllm import VLLM
from tools.traces.logged import LoggedRequest, TraceLog
from tools.traces.prompt import Segment, joined
from tools.traces.reading import Encode, Reading, pieces_of

__all__ = ["FORMATS", "detect", "head_of", "numbered_lines", "opened", "read_log"]

FORMATS: tuple[Reader, ...] = (MOONCAKE, BURSTGPT, AZURE, BUNDLED, SGLANG_JSON, SGLANG_TEXT, VLLM, PROXY)
"""In the order in which they are tried: the particular before the general."""

_HEAD_LINES = 5000
"A server's own log may begin with a long start-up."
_HEAD_BYTES = 8 << 20
_COUNTED_LINES = 200
"From which the size of a token is estimated."


def read_log(path: Path, *, format_name: str | None = None, encode: Encode | None = None) -> TraceLog:
    """The requests of the log at `path` (plain or .gz), in order of arrival.

    Prompts become chains of salted block hashes while they are read; no text is kept. `encode` is a tokenizer for logs
    that hold text but no token ids; without one, pieces of text of about one token stand for tokens.

    Raises:
        UserError: no such file, no known format, or not one request in it.
    """
    reading = Reading(encode)
    with opened(path) as file:
        head = head_of(file)
    reader = detect(path, [line for _, line in head], format_name)
    if encode is None:
        reading.pieces_per_token = _pieces_per_token(reader, head[:_COUNTED_LINES])
    counted = 0

    def counting(lines: Lines) -> Lines:
        nonlocal counted
        for line in lines:
            counted += 1
            yield line

    with opened(path) as file:
        requests = sorted(reader.read(counting(numbered_lines(file)), reading), key=lambda request: request.at_s)
    if not requests:
        raise UserError(_nothing(path, reader, reading, counted))
    if encode is None and reading.pieces_per_token != 1.0:
        reading.note(
            f"a token is taken for {reading.pieces_per_token:.2f} pieces of text, as the log's own counts say; "
            "--tokenizer DIRECTORY counts exactly"
        )
    requests = _spread(requests, reading)
    first_s = requests[0].at_s
    return TraceLog(
        path=path,
        format=reader.name,
        requests=tuple(replace(request, at_s=request.at_s - first_s) for request in requests),
        lines=counted,
        bad=reading.bad,
        bad_examples=tuple(reading.bad_examples),
        left_out=reading.left_out,
        notes=tuple(reading.notes),
    )


def detect(path: Path, head: list[bytes], format_name: str | None = None) -> Reader:
    """The reader whose file begins like `head`, or the one named.

    Raises:
        UserError: none; the message lists what was tried.
    """
    names = [reader.name for reader in FORMATS]
    if format_name is not None:
        if format_name not in names:
            raise UserError(f"--format: expected one of {', '.join(names)}, found {format_name!r}")
        return FORMATS[names.index(format_name)]
    if not head:
        raise UserError(f"{path}: expected a request log, found an empty file")
    for reader in FORMATS:
        if reader.recognises(head):
            return reader
    tried = "\n".join(f"  {reader.name}: {reader.expected}" for reader in FORMATS)
    raise UserError(
        f"{path}: expected a request log, found none of the known formats in its first {len(head)} lines. Tried:\n"
        f"{tried}\nConvert it to one of them; the generic one is a JSON line per request with timestamp, "
        "prompt_tokens, completion_tokens and, for prefix sharing, messages."
    )


def head_of(file: BinaryIO) -> list[tuple[int, bytes]]:
    """The first lines, enough of them to tell a format by."""
    head: list[tuple[int, bytes]] = []
    size = 0
    for number, line in islice(numbered_lines(file), _HEAD_LINES):
        head.append((number, line))
        size += len(line)
        if size > _HEAD_BYTES:
            break
    return head


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that aren't empty, with their numbers from 1."""
    for number, line in enumerate(file, start=1):
        if stripped := line.strip():
            yield number, stripped


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The log at `path` for reading, decompressed where its name ends in .gz.

    Raises:
        UserError: no such file, or it can't be read to its end.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except OSError as error:
        raise UserError(f"{path}: expected a log that can be read, found {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise UserError(
            f"{path}: expected a whole .gz file, found one that can't be read to its end: {error}"
        ) from None


def _pieces_per_token(reader: Reader, head: list[tuple[int, bytes]]) -> float:
    """Pieces of prompt text per token where the log's beginning has both, else 1. It must be one number for the whole
    log: blocks of unequal length would not line up."""
    if reader is not PROXY:
        return 1.0
    probe = _Probe()
    for _ in reader.read(head, probe):
        pass
    return probe.pieces / probe.tokens if probe.tokens else 1.0


class _Probe(Reading):
    """Counts pieces and tokens, and reads nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = 0
        self.tokens = 0

    def prompt(
        self, segments: tuple[Segment, ...], tokens: int | None, *, root: str = ""
    ) -> tuple[int, tuple[int, ...]]:
        if tokens is not None:
            self.pieces += len(pieces_of(joined(segments)))
            self.tokens += tokens
        return super().prompt(segments, tokens, root=root)


def _spread(requests: list[LoggedRequest], reading: Reading) -> list[LoggedRequest]:
    """Requests whose stamps are whole seconds (or tens, or minutes), at random moments within theirs.

    A coarse clock makes a burst of what came one after the other. Within one tick arrivals are close to Poisson, and
    those are uniform given their count.
    """
    tick_s = _tick_s({request.at_s for request in requests})
    if tick_s is None or len({request.at_s for request in requests}) == len(requests):
        return requests
    reading.note(f"the log's clock ticks every {tick_s:g} s: requests are put at random moments within theirs")
    random = Random(0)
    spread = []
    for at_s, together in groupby(requests, key=lambda request: request.at_s):
        same = list(together)
        offsets = sorted(random.random() * tick_s for _ in same)
        spread += [replace(request, at_s=at_s + offset) for request, offset in zip(same, offsets, strict=True)]
    return spread


def _tick_s(stamps: set[float]) -> float | None:
    """The coarsest usual clock that all stamps fit, counted from the first; None for one finer than a second."""
    first_s = min(stamps)
    for tick_s in (60.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0):
        if len(stamps) > 1 and all((stamp - first_s) % tick_s == 0 for stamp in stamps):
            return tick_s
    return None


def _nothing(path: Path, reader: Reader, reading: Reading, lines: int) -> str:
    why = [*reading.bad_examples, *(f"{count} left out: {reason}" for reason, count in reading.left_out.most_common(3))]
    return f"{path}: expected requests in {reader.name} format, found none that can be used in {lines} lines" + "".join(
        f"\n  {reason}" for reason in why
    )
