"""Capture: the prompts of a log as they are, for as long as the doctor looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError
from tools.traces.doctor.layout import Prompt, chunked, chunked_ids
from tools.traces.logged import LoggedRequest
from tools.traces.prompt import Segment
from tools.traces.read import detect, head_of, numbered_lines, opened
from tools.traces.reading import Reading

__all__ = ["CapturedLog", "capture"]


@dataclass(frozen=True)
class CapturedLog:
    """The first requests of a log with their prompts, in order of arrival."""

    path: Path
    format: str
    prompts: tuple[Prompt, ...]
    requests: tuple[LoggedRequest, ...]
    whole: bool
    "Whether those are all."
    bad: int


class _Capturing(Reading):
    """A reading that keeps the latest prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: Prompt | None = None

    def prompt(
        self, segments: tuple[Segment, ...], tokens: int | None, *, root: str = ""
    ) -> tuple[int, tuple[int, ...]]:
        self.latest = chunked(segments, root)
        return super().prompt(segments, tokens, root=root)

    def prompt_ids(self, ids: Sequence[int], *, root: str = "") -> tuple[int, ...]:
        blocks = super().prompt_ids(ids, root=root)
        self.latest = chunked_ids(ids, root)
        return blocks


def capture(path: Path, *, format_name: str | None = None, most: int) -> CapturedLog:
    """The first `most` requests of the log at `path`.

    Raises:
        UserError: no such file, no known format, or no prompt in it.
    """
    with opened(path) as file:
        reader = detect(path, [line for _, line in head_of(file)], format_name)
    reading = _Capturing()
    found: list[tuple[LoggedRequest, Prompt]] = []
    with opened(path) as file:
        for request in reader.read(numbered_lines(file), reading):
            if reading.latest is not None and len(found) <= most:
                found.append((request, reading.latest))
            reading.latest = None
            if len(found) > most:
                break
    if not found:
        raise UserError(
            f"{path}: expected prompts (text or token ids) for the doctor to look at, found a log in {reader.name} "
            "format with none; log messages, or serve with a request log that holds token ids"
        )
    whole = len(found) <= most
    found = sorted(found[:most], key=lambda pair: pair[0].at_s)
    return CapturedLog(
        path, reader.name, tuple(p for _, p in found), tuple(r for r, _ in found), whole=whole, bad=reading.bad
    )
