"""Metric words: where a text names a metric, as people write it or by its flat name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.measure.summary import METRICS

__all__ = ["Named", "metric_words"]

_LATENCIES = ("ttft", "tpot", "itl", "e2el", "task")
_RATES = ("request_throughput", "output_throughput", "total_token_throughput", "request_goodput")

_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"ttft|time[ -]to[ -](?:the[ -])?first[ -]token|first[ -]token(?:[ -]latency)?", ("ttft",)),
    (r"tpot|time[ -]per[ -](?:output[ -])?token", ("tpot",)),
    (r"itl|tbt|inter[ -]token(?:[ -]latency)?", ("itl",)),
    (r"e2el?|end[ -]to[ -]end(?:[ -]latency)?", ("e2el",)),
    (r"total token throughput|total_token_throughput", ("total_token_throughput",)),
    (r"request[ _]throughput", ("request_throughput",)),
    (r"(?:output|token)[ _]throughput", ("output_throughput",)),
    (r"(?:request[ _])?goodput", ("request_goodput",)),
    (r"throughput", _RATES),
    (r"slo[ _]attainment|attainment", ("slo_attainment",)),
    (r"(?:prefix[ _-])?(?:cache[ -])?hit[ _-]rate", ("prefix_hit_rate",)),
    (r"stutter(?:[ _]share)?", ("stutter_share",)),
    (r"latenc(?:y|ies)|response time", _LATENCIES),
)
_STATISTIC = r"(?:(?P<statistic>p50|p90|p95|p99|mean|average|median|std)(?:[ _-]))?"
_METRIC = re.compile(
    r"(?<![A-Za-z0-9])"
    + _STATISTIC
    + "(?:"
    + "|".join(f"(?P<w{number}>{words})" for number, (words, _) in enumerate(_WORDS))
    + r")(?:_ms)?(?:[ _-](?P<after>p50|p90|p95|p99|mean|median)(?![A-Za-z0-9]))?(?![A-Za-z])",
    re.IGNORECASE,
)
_FLAT = re.compile(r"(?<![A-Za-z0-9_])[a-z0-9]+(?:_[a-z0-9]+)+(?![A-Za-z0-9_])")
_ALONE = re.compile(r"(?<![A-Za-z0-9_])(p50|p90|p95|p99)(?![A-Za-z0-9_])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Named:
    """A metric where a clause names it."""

    families: tuple[str, ...]
    "What it may mean: ttft, tpot, itl, e2el, task, or flat names. Empty: any."
    statistic: str
    "p50, p90, p95, p99, mean, median, std; empty where none is named."
    start: int
    end: int

    def means(self, metric: str) -> bool:
        """Whether the flat name `metric` may be what is meant."""
        statistic, _, rest = metric.partition("_") if metric.endswith("_ms") else ("", "", metric)
        family = rest.removesuffix("_ms").removesuffix("_from_send").removesuffix("_tok")
        if metric in self.families:
            return True
        if self.families and family not in self.families:
            return False
        return not self.statistic or not statistic or _same(self.statistic, statistic)


def metric_words(clause: str) -> list[Named]:
    """Every metric that `clause` names, in order."""
    flat = [match for match in _FLAT.finditer(clause) if match[0] in METRICS]
    found = [Named((match[0],), "", match.start(), match.end()) for match in flat]
    for match in _METRIC.finditer(clause):
        if any(one.start <= match.start() < one.end for one in found):
            continue
        number = next(n for n in range(len(_WORDS)) if match[f"w{n}"] is not None)
        statistic = (match["statistic"] or match["after"] or "").lower()
        found.append(Named(_WORDS[number][1], statistic, match.start(), match.end()))
    taken = [(one.start, one.end) for one in found]
    for match in _ALONE.finditer(clause):
        if not any(start <= match.start() < end for start, end in taken):
            found.append(Named((), match[1].lower(), match.start(), match.end()))
    return sorted(found, key=lambda one: one.start)


def _same(asked: str, found: str) -> bool:
    alike = {"average": "mean", "p50": "median"}
    return alike.get(asked, asked) == alike.get(found, found)
