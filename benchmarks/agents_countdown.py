"""Countdown: what a long row is at, and about how long it will take, one line on stderr now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

from autotune.console import duration

__all__ = ["counted"]

_EVERY_S = 5.0

Each = TypeVar("Each", covariant=True)


class Countable(Sized, Iterable[Each], Protocol[Each]):
    """What has a length and can be gone through."""


def counted(row: str, jobs: Countable[Each]) -> Iterator[Each]:
    """Go through `jobs`; after each, at most every five seconds, say how many are done and about how long the rest is.

    They are taken to last alike.
    """
    began = told = time.monotonic()
    for done, job in enumerate(jobs, start=1):
        yield job
        now = time.monotonic()
        if now - told >= _EVERY_S:
            told = now
            left = duration((now - began) / done * (len(jobs) - done))
            sys.stderr.write(f"{row}: {done} of {len(jobs)} done, about {left} left\n")
            sys.stderr.flush()
