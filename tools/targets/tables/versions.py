"""VersionRange: which versions of an engine a table or one of its rows is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.errors import UserError

__all__ = ["Version", "VersionRange", "parse_version"]

Version = tuple[int, ...]
"""The numbers of a release, without trailing zeros: 0.32.0+cpu is (0, 32), the build b6123 is (6123,)."""

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_BOUND = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")


def parse_version(text: str) -> Version:
    """The first release number in what an engine says of itself (`vLLM API server version 0.32.0`, `b6123`).

    Raises:
        UserError: there is no number in it.
    """
    found = _NUMBERS.search(text)
    if found is None:
        raise UserError(f"expected a version such as 0.32.0, found {text!r}")
    numbers = [int(part) for part in found.group().split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """From `low`, included, to `high`, not included; None: no bound on that side."""

    low: Version | None = None
    high: Version | None = None

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """`>=0.30,<0.34`, either half of it, or an empty text for every version.

        Raises:
            UserError: anything else, or a range that holds nothing.
        """
        bounds: dict[str, Version] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            bound = _BOUND.fullmatch(part)
            if bound is None or bound[1] in bounds:
                raise UserError(f"versions: expected a range such as '>=0.30,<0.34', found {text!r}")
            bounds[bound[1]] = parse_version(bound[2])
        span = cls(bounds.get(">="), bounds.get("<"))
        if span.low is not None and span.high is not None and span.low >= span.high:
            raise UserError(f"versions: no version is within {text!r}")
        return span

    def __contains__(self, version: Version) -> bool:
        return (self.low is None or version >= self.low) and (self.high is None or version < self.high)

    def overlaps(self, other: VersionRange) -> bool:
        """Whether some version is within both."""
        return _below(self.low, other.high) and _below(other.low, self.high)


def _below(low: Version | None, high: Version | None) -> bool:
    return low is None or high is None or low < high
