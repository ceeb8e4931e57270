"""The two tables of a comparison, as texts: for the terminal and for the page alike."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.compare.against import Against
from autotune.compare.comparison import Comparison
from autotune.compare.entry import Entry
from autotune.compare.metric import CompareMetric
from autotune.pages.number import number

__all__ = ["Figure", "figures", "sizes"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's cell in a metric's row."""

    median: str
    "`-` where it isn't told."
    ratio: str = ""
    "To the first, with its interval."
    better: bool | None = None
    "None where that isn't resolved."


def sizes(found: Comparison) -> list[tuple[str, ...]]:
    """What the contenders are, how much they hold and what they did: rows of a name and a cell for each contender."""
    columns = [_size(found, entry) for entry in found.entries]
    return [(name, *(column[name] for column in columns)) for name in columns[0]]


def figures(found: Comparison, metric: CompareMetric) -> list[Figure]:
    """A cell for each contender."""
    return [_figure(found, entry, metric) for entry in found.entries]


def _size(found: Comparison, entry: Entry) -> dict[str, str]:
    tokens = found.tokens(entry)
    return {
        "engine": _engine(found, entry),
        "model": entry.model_name,
        "KV cache, MiB": number(entry.kv_bytes / 2**20 if entry.kv_bytes else None)
        + " (its own)" * bool(entry.unsized),
        "KV tokens": number(entry.kv_tokens),
        "sequences at once": number(entry.sequences(found.longest_tokens)),
        "prompt tokens": number(tokens[0]) if tokens else "-",
        "output tokens": number(tokens[1]) if tokens else "-",
        "trials that count": f"{len(found.counted(entry))} of {len(found.of(entry))}",
    }


def _engine(found: Comparison, entry: Entry) -> str:
    """With its version, where a server has told it."""
    measured = (trial.measurement for trial in found.of(entry))
    told = (m.identity_before.engine for m in measured if m is not None and m.identity_before is not None)
    return next(told, entry.engine)


def _figure(found: Comparison, entry: Entry, metric: CompareMetric) -> Figure:
    own = found.standing(entry, metric)
    median = "-" if own is None else metric.shown(own.median)
    ratio = None if entry is found.first else found.against(entry, metric)
    return Figure(median) if ratio is None else Figure(median, _ratio(ratio), ratio.better(metric))


def _ratio(found: Against) -> str:
    span = "" if found.low is None or found.high is None else f" [{found.low:.2f}..{found.high:.2f}]"
    return f"x{found.ratio:.2f}{span}"
