"""Paired slices: two trials of the same requests, compared part by part while one of them still goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

__all__ = ["Pair", "paired_slices"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same requests, served by two configs: the mean value of each."""

    mine: float
    theirs: float
    requests: int


def paired_slices(mine: Mapping[int, float], theirs: Mapping[int, float], requests: int, each: int) -> tuple[Pair, ...]:
    """The slices that both trials have answered in full, in the order of the requests.

    Args:
        mine, theirs: value by the request's number, from 0; those without an answer yet are absent.
        requests: how many a full trial sends.
        each: requests of a slice; the rest that fills none is left out.
    """
    if each < 1:
        raise ValueError(f"requests of a slice: expected 1 or more, found {each}")
    pairs = []
    for first in range(0, requests - each + 1, each):
        numbers = range(first, first + each)
        if all(number in mine and number in theirs for number in numbers):
            means = [fmean(side[number] for number in numbers) for side in (mine, theirs)]
            pairs.append(Pair(means[0], means[1], each))
    return tuple(pairs)
