"""Reader: what every format has to be able to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import orjson

from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.reading import Reading

__all__ = ["JsonLines", "Lines", "Reader", "count_of", "json_object"]

_LOOKED_AT = 200
_MOST_TOKENS = 10_000_000

Lines = Iterable[tuple[int, bytes]]
"""Numbered lines (from 1), the empty ones left out."""


class Reader(Protocol):
    """One format."""

    name: str
    expected: str
    "What a file of this format looks like, for the message that lists what was tried."

    def recognises(self, head: Sequence[bytes]) -> bool:
        """Whether a file that begins with these lines is one of ours."""
        ...

    def read(self, lines: Lines, reading: Reading) -> Iterator[LoggedRequest]:
        """Its requests, in any order; what can't be read is tallied in `reading`."""
        ...


class JsonLines:
    """A format of one JSON object per request: a name, the keys to know it by, and a function of one object."""

    def __init__(
        self,
        name: str,
        expected: str,
        knows: Callable[[dict[str, Any]], bool],
        row: Callable[[dict[str, Any], Reading], LoggedRequest | None],
    ) -> None:
        self.name = name
        self.expected = expected
        self._knows = knows
        self._row = row

    def recognises(self, head: Sequence[bytes]) -> bool:
        objects = [found for line in head[:_LOOKED_AT] if (found := json_object(line)) is not None]
        # One broken line in the head is no reason to give up on a file whose other lines are plainly ours.
        return bool(objects) and sum(map(self._knows, objects)) * 2 > len(objects)

    def read(self, lines: Lines, reading: Reading) -> Iterator[LoggedRequest]:
        row = self._row
        for number, line in lines:
            try:
                data = orjson.loads(line)
                if not isinstance(data, dict):
                    raise BadLine(f"expected a JSON object, found {type(data).__name__}")
                request = row(data, reading)
            except orjson.JSONDecodeError as error:
                reading.bad_line(number, f"expected a JSON object, found none ({error.msg} at column {error.colno})")
            except KeyError as error:
                reading.bad_line(number, f"expected the key {error}, found none")
            except BadLine as error:
                reading.bad_line(number, str(error))
            except (AttributeError, IndexError, TypeError, ValueError) as error:
                # Somebody else's object may have anything in any place.
                reading.bad_line(number, f"expected another structure ({type(error).__name__})")
            else:
                if request is not None:
                    yield request


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that `line` is; None where it isn't one."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return data if isinstance(data, dict) else None


def count_of(name: str, value: Any, *, least: int = 0) -> int:
    """`value` as a count of tokens.

    Raises:
        BadLine: not a whole number, below `least`, or more than any context holds.
    """
    try:
        number = int(value)
        whole = number == float(value)
    except (TypeError, ValueError, OverflowError):
        whole, number = False, 0
    if not whole or isinstance(value, bool) or not least <= number <= _MOST_TOKENS:
        raise BadLine(f"expected {name} as a whole number from {least} on, found {str(value)[:20]!r}")
    return number
