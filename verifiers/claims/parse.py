"""Parse: the claims in a text, which are numerals next to a percent sign, a factor, a unit or a metric."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from verifiers.claims.metric_words import Named, metric_words

__all__ = ["Claim", "claims_in"]

MOST_CHARS = 20_000
"Of a text that is read; what is longer is no prose for people."

_UNITS = {
    "%": "%", "percent": "%", "per cent": "%", "pct": "%", "percentage points": "%",
    "x": "x", "×": "x", "-fold": "x", "fold": "x", "times": "x",
    "ms": "ms", "msec": "ms", "millisecond": "ms", "milliseconds": "ms",
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "min", "minute": "min", "minutes": "min",
    "µs": "us", "μs": "us", "us": "us", "microseconds": "us",
    "tps": "/s", "rps": "/s", "qps": "/s", "/s": "/s", "/sec": "/s", "per second": "/s",
    "bytes": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB",
    "gb/s": "GB/s", "gib/s": "GiB/s", "mb/s": "MB/s", "gflop/s": "GFLOP/s", "tflop/s": "TFLOP/s",
} | {
    f"{what}{per}": "/s"
    for what in ("t", "tok", "toks", "token", "tokens", "req", "reqs", "request", "requests")
    for per in ("/s", "/sec", "/second", " per s", " per sec", " per second", " a second", " / s")
}  # fmt: skip
"""Written forms, in lower case, and the unit that they mean."""

_NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z_][-/])(?P<times>[x\u00d7](?!(?:86|64)(?!\d)))?"  # a factor; x86 is none
    r"(?P<sign>[+\u2212-]?)(?P<digits>\d{1,3}(?:[,\u202f ]\d{3})+(?![\d])|\d+)"
    r"(?:[.,](?P<fraction>\d+))?(?:[eE](?P<exponent>[+-]?\d{1,3}))?(?P<scale>[kKM](?![A-Za-z]))?"
)
_SCALES = {"": 0, "k": 3, "K": 3, "M": 6}
_FACTOR_WORD = re.compile(
    r"\b(?:(?P<two>twice|twofold|halv(?:e[sd]?|ing)|doubl(?:e[sd]?|ing))"
    r"|(?P<three>threefold|tripl(?:e[sd]?|ing)|thrice)|(?P<four>fourfold|quadrupl(?:e[sd]?|ing)))\b",
    re.IGNORECASE,
)
_FACTORS = {"two": 2.0, "three": 3.0, "four": 4.0}
_WORD_REACH = 3
"A factor in words is about a metric that stands at most so many words from it; else it is about a knob or a plan."
_LARGEST_POWER = 300
"Of ten, in a float."
_UNIT = re.compile(
    r"(?:\s?(?:[-\u2013]|to|or|and)\s?\d[\d.,]*)?"  # the first of a range has the unit of the second
    r"[\s\u00a0\u202f-]?(?P<unit>" + "|".join(re.escape(u) for u in sorted(_UNITS, key=len, reverse=True)) + r")"
    r"(?![\w/])(?!\s(?:interval|confidence|level|CI)\b)",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\s(?!faster|slower|higher|lower|more|less|better|worse|as|the|that|its)", re.IGNORECASE)
"What follows `3 times` where that counts and doesn't compare."
_CLAUSE_END = re.compile(r"[.;!?](?=\s|$)|\n|,\s|\s[-\u2013\u2014]\s|\bwhile\b|\bbut\b|\bwith\b")
_CONNECTIVE = re.compile(
    r"\s*(?:$|[^\w\s]|(?:and|or|to|from|at|on|in|for|against|versus|vs|than|when|by|is|was|were|of|under|over|per|"
    r"instead|now|after|before|here|there|as|if|that|lower|higher|less|more|better|worse|faster|slower)\b)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    r"(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\W*(?:\W+(?:to|of|is|at|from|was)\W+)?$", re.IGNORECASE
)
_NEAR_WORDS = 6
"A bare numeral is about a metric that stands at most so many words before it in its clause."


@dataclass(frozen=True, slots=True)
class Claim:
    """One numeral that says something about a measurement, as it stands in a text."""

    text: str
    "The numeral with its unit."
    value: float
    rounding: float
    "Half of its last digit's place: what it was rounded from lies within."
    unit: str
    "% x ms s min us /s B ...; empty for a bare numeral, which is in its metric's own unit."
    metric: Named | None
    "What its clause says it is about; None where it names no metric."


def claims_in(text: str) -> tuple[Claim, ...]:
    """Every claim in `text`, in order. Numerals in names (p95, t1, max_num_seqs=16) and counts of things are none."""
    plain = unicodedata.normalize("NFKC", text[:MOST_CHARS])
    found = []
    for start, end in _clauses(plain):
        clause = plain[start:end]
        named = metric_words(clause)
        for match in _NUMBER.finditer(clause):
            unit = None if match["times"] else _unit(clause, match.end())
            metric = _nearest(named, match.start())
            if not (unit or match["times"] or _bare_claim(clause, match, metric)):
                continue
            written = " ".join([match[0], unit["unit"]]) if unit else match[0]
            value, rounding = _value(match)
            means = "x" if match["times"] else _UNITS[unit["unit"].lower()] if unit else ""
            found.append(Claim(written, value, rounding, means, metric))
        found.extend(_in_words(clause, named))
    return tuple(found)


def _in_words(clause: str, named: list[Named]) -> Iterator[Claim]:
    """`halves TTFT`, `throughput doubles`: factors of a metric close by."""
    for match in _FACTOR_WORD.finditer(clause):
        for metric in named:
            between = clause[min(metric.end, match.end()) : max(metric.start, match.start())]
            if len(between.split()) <= _WORD_REACH and "_" not in between:
                yield Claim(match[0], _FACTORS[match.lastgroup or "two"], 0.5, "x", metric)
                break


def _unit(clause: str, place: int) -> re.Match[str] | None:
    unit = _UNIT.match(clause, place)
    if (
        unit is not None
        and unit["unit"].lower() == "times"
        and (unit.end() == len(clause) or _COUNTED.match(clause, unit.end()))
    ):
        return None
    return unit


def _clauses(text: str) -> list[tuple[int, int]]:
    ends = [match.end() for match in _CLAUSE_END.finditer(text)]
    edges = [0, *ends, len(text)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def _nearest(named: list[Named], place: int) -> Named | None:
    """The metric named last before `place`, else the first one after it."""
    before = [one for one in named if one.end <= place]
    after = [one for one in named if one.start >= place]
    return before[-1] if before else after[0] if after else None


def _bare_claim(clause: str, match: re.Match[str], metric: Named | None) -> bool:
    """Whether a numeral without a unit is about `metric`: close behind it, no knob's value, no count of things."""
    if metric is None or metric.end > match.start():
        return False
    between = clause[metric.end : match.start()]
    if len(between.split()) > _NEAR_WORDS or _IDENTIFIER.search(between):
        return False
    return _CONNECTIVE.match(clause, match.end()) is not None


def _value(match: re.Match[str]) -> tuple[float, float]:
    """What it says, and half of its last digit's place. Beyond what a float holds it is infinite, which nothing is."""
    fraction = match["fraction"] or ""
    exponent = int(match["exponent"] or 0) + _SCALES[match["scale"] or ""]
    digits = re.sub(r"\D", "", match["digits"])
    value = float(f"{digits}.{fraction or 0}e{exponent}")
    place = max(-_LARGEST_POWER, min(exponent - len(fraction), _LARGEST_POWER))
    return value, 0.5 * 10.0**place
