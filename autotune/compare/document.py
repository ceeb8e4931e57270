"""The document that `compare --json` prints: all that a comparison says, without the raw trials."""

from __future__ import annotations

from typing import Any

from autotune.compare.comparison import Comparison
from autotune.compare.entry import Entry
from autotune.compare.metric import CompareMetric
from autotune.compare.sentences import conclusions, notes
from autotune.compare.trial import CompareTrial

__all__ = ["document"]


def document(found: Comparison) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "workload": found.workload,
        "judged_by": found.judged_by,
        "rounds": found.rounds,
        "contenders": [_contender(found, entry) for entry in found.entries],
        "metrics": {metric.name: _metric(found, metric) for metric in found.metrics},
        "conclusions": conclusions(found),
        "notes": notes(found),
        "ended_early": found.ended_early,
        "trials": [_trial(trial) for trial in found.trials],
    }


def _contender(found: Comparison, entry: Entry) -> dict[str, Any]:
    tokens = found.tokens(entry)
    return {
        **entry.to_json(),
        "sequences": entry.sequences(found.longest_tokens),
        "trials": len(found.of(entry)),
        "counted": len(found.counted(entry)),
        "prompt_tokens": tokens[0] if tokens else None,
        "output_tokens": tokens[1] if tokens else None,
    }


def _metric(found: Comparison, metric: CompareMetric) -> dict[str, Any]:
    """Each contender's figures; `to_first` is its ratio to the first, None where that can't be told."""
    each: dict[str, Any] = {}
    for entry in found.entries:
        own, ratio = found.standing(entry, metric), found.against(entry, metric)
        shown = {} if own is None else own.to_json()
        each[entry.name] = {**shown, "to_first": ratio.to_json() if ratio and entry is not found.first else None}
    return {"lower_is_better": metric.lower_is_better, "contenders": each}


def _trial(trial: CompareTrial) -> dict[str, Any]:
    failure = trial.failure
    return {
        "contender": trial.contender,
        "round": trial.round,
        "seed": trial.workload.seed,
        "counts": trial.counts,
        "doubts": [doubt.to_json() for doubt in trial.doubts],
        "failure": {"kind": failure["kind"], "message": failure["message"]} if failure else None,
        **trial.values,
    }
