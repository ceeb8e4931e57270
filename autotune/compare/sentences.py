"""Sentences: who is better by how much, and what has to be known before that is believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.compare.against import Against
from autotune.compare.comparison import Comparison
from autotune.compare.entry import Entry
from autotune.compare.metric import CompareMetric

__all__ = ["conclusions", "notes"]

_ALIKE = 0.02
"Relative; what differs by more than that isn't taken to be the same."

_FORMATS: Mapping[str, str] = {
    "bf16": "bfloat16",
    "f16": "float16",
    "fp16": "float16",
    "f32": "float32",
    "fp32": "float32",
}
"Engines call the same format differently."


def conclusions(found: Comparison) -> list[str]:
    """One sentence for each metric."""
    return [_conclusion(found, metric) for metric in found.metrics]


def notes(found: Comparison) -> list[str]:
    """What makes the contenders differ besides their engines and configs, and what doesn't count."""
    told = [*_models(found.entries), *_sizes(found.entries), *_token_counts(found)]
    for entry in found.entries:
        told += [*_failures(found, entry), *_doubts(found, entry)]
    if found.ended_early:
        told.append(f"ended early: {found.ended_early}")
    return told


def _conclusion(found: Comparison, metric: CompareMetric) -> str:
    clauses, unresolved = [], []
    for entry in found.others:
        ratio = found.against(entry, metric)
        if ratio is None:
            clauses.append(
                f"{entry.name} can't be held against {found.first.name}: {_why_untold(found, entry, metric)}"
            )
        elif ratio.resolved:
            clauses.append(_resolved(found.first, entry, metric, ratio))
        else:
            unresolved.append(f"{entry.name} {_interval(ratio)}")
    if unresolved:
        clauses.append(f"nothing is resolved between {found.first.name} and {' or '.join(unresolved)}")
    return f"{metric.words}: {'; '.join(clauses)}."


def _resolved(first: Entry, entry: Entry, metric: CompareMetric, found: Against) -> str:
    better = found.better(metric)
    much = f"{abs(found.ratio - 1):.0%} {'lower' if found.ratio < 1 else 'higher'}"
    if not 0.5 <= found.ratio <= 2:
        times = found.ratio if found.ratio > 1 else 1 / found.ratio
        much = f"{times:.1f} times {'as much' if found.ratio > 1 else 'less'}"
    return f"{entry.name} is {'better' if better else 'worse'} than {first.name}: {much} {_interval(found)}"


def _interval(found: Against) -> str:
    rounds = f"{found.rounds} round{'' if found.rounds == 1 else 's'}"
    if found.low is None or found.high is None:
        return f"(ratio {found.ratio:.2f}, one round has no interval)"
    return f"(ratio {found.ratio:.2f}, 95 %: {found.low:.2f} to {found.high:.2f}, {rounds})"


def _why_untold(found: Comparison, entry: Entry, metric: CompareMetric) -> str:
    for one in (found.first, entry):
        if not found.counted(one):
            return f"no trial of {one.name} counts"
    if not {t.round for t in found.counted(found.first)} & {t.round for t in found.counted(entry)}:
        return "no round counts for both"
    zero = any(value == 0 for one in (found.first, entry) for value in found.by_round(one, metric).values())
    return "it is 0 in some round, and has no ratio" if zero else "some round can't tell it"


def _models(entries: tuple[Entry, ...]) -> list[str]:
    told = []
    if len({entry.model_digest for entry in entries}) > 1:
        each = ", ".join(
            f"{entry.name}: {entry.model_name} ({entry.model_digest[:12] or 'unknown'})" for entry in entries
        )
        told.append(f"NOT THE SAME MODEL, or not the same file of it: {each}. What differs may be its format")
    names = dict.fromkeys(name for entry in entries for name in entry.lossy)
    for name in names:
        having = [entry for entry in entries if name in entry.lossy]
        if len({_FORMATS.get(str(entry.lossy[name]), entry.lossy[name]) for entry in having}) > 1:
            each = ", ".join(f"{entry.name}: {entry.lossy[name]}" for entry in having)
            told.append(f"NOT THE SAME ANSWERS: {name}, which can change what the model says, differs: {each}")
    return told


def _sizes(entries: tuple[Entry, ...]) -> list[str]:
    told = [
        f"{entry.name}: its KV cache isn't sized ({entry.unsized}); it is measured with "
        + (f"its own {entry.kv_bytes / 2**20:,.0f} MiB" if entry.kv_bytes else "what it has")
        for entry in entries
        if entry.unsized
    ]
    known = {entry.name: entry.kv_bytes for entry in entries if entry.kv_bytes}
    if known and max(known.values()) > (1 + _ALIKE) * min(known.values()):
        each = ", ".join(f"{name}: {size / 2**20:,.0f} MiB" for name, size in known.items())
        told.append(f"NOT THE SAME MEMORY: KV caches differ ({each}); --kv names a size that all of them can have")
    return told


def _token_counts(found: Comparison) -> list[str]:
    told = []
    counts = {entry.name: found.tokens(entry) for entry in found.entries if found.counted(entry)}
    silent = [name for name, pair in counts.items() if pair is None]
    if silent:
        told.append(
            f"{', '.join(silent)}: the server doesn't count tokens in every round; whether the work is the same "
            "can't be told"
        )
    for place, what in enumerate(("prompt", "output")):
        means = {name: pair[place] for name, pair in counts.items() if pair is not None}
        if means and max(means.values()) > (1 + _ALIKE) * min(means.values()):
            each = ", ".join(f"{name}: {mean:.1f}" for name, mean in means.items())
            told.append(
                f"NOT THE SAME WORK: the servers count different {what} tokens for the same requests ({each} each); "
                "their tokenisers, templates or stops differ"
            )
    return told


def _failures(found: Comparison, entry: Entry) -> Iterable[str]:
    for trial in found.of(entry):
        if trial.failure is not None:
            yield f"{entry.name}, round {trial.round + 1}: {trial.failure['kind']}: {trial.failure['message']}"


def _doubts(found: Comparison, entry: Entry) -> list[str]:
    """Each kind of doubt once, with the rounds in which it was had."""
    told: dict[tuple[bool, str], list[tuple[int, str]]] = {}
    for trial in found.of(entry):
        for doubt in trial.doubts:
            told.setdefault((not doubt.invalid, doubt.name), []).append((trial.round + 1, doubt.sentence))
    return [
        f"{entry.name}, round{'s' if len(had) > 1 else ''} {', '.join(str(number) for number, _ in had)}: "
        f"{'' if usable else 'INVALID, not counted: '}{name}: {had[0][1]}"
        for (usable, name), had in sorted(told.items())
    ]
