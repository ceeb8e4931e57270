"""Edits: the verbs by which a case tells its lie about honest evidence. Records, summaries and ledger stay consistent
with each other, as a careful liar would leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from tools.canonical import digest
from tools.evals.results import EvalResults
from tools.ledger import Entry
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.summary import summarise
from tools.targets.target import Identity
from verifiers.evidence import Change, Evidence, ManifestChange, TrialEvidence
from verifiers.gauntlet.load import counted
from verifiers.gauntlet.tape import resealed

__all__ = [
    "candidates",
    "confirmed",
    "counting",
    "everywhere",
    "identified",
    "named",
    "reidentified",
    "with_change",
    "with_data",
    "with_entries",
    "with_evals",
    "with_measurement",
    "with_records",
    "with_trials",
]

Which = Callable[[TrialEvidence], bool]


def candidates(trial: TrialEvidence) -> bool:
    """The candidate's launches, in the search, the confirmation and the soak."""
    return trial.arm == "B"


def confirmed(trial: TrialEvidence) -> bool:
    """The candidate's launches in the confirmation."""
    return trial.arm == "B" and trial.role == "confirm"


def everywhere(trial: TrialEvidence) -> bool:
    return True


def named(*ids: str) -> Which:
    return lambda trial: trial.id in ids


def with_trials(evidence: Evidence, which: Which, edit: Callable[[TrialEvidence], TrialEvidence]) -> Evidence:
    """The trials of `which` edited, wherever they stand, and their ledger entries with them."""
    edited: dict[str, TrialEvidence] = {}

    def each(trials: Iterable[TrialEvidence]) -> tuple[TrialEvidence, ...]:
        found = []
        for trial in trials:
            if which(trial):
                trial = edited.setdefault(trial.id, edit(trial))
            found.append(trial)
        return tuple(found)

    changed = replace(evidence, trials=each(evidence.trials), search=each(evidence.search), extra=each(evidence.extra))

    def recorded(entry: Entry) -> Mapping[str, Any]:
        trial = edited.get(entry.data["id"])
        return entry.data if trial is None else _recorded(entry.data, trial)

    return with_data(changed, "trial", recorded)


def _recorded(data: Mapping[str, Any], trial: TrialEvidence) -> dict[str, Any]:
    return {
        **data,
        "arm": trial.arm,
        "config": dict(trial.config.values),
        "config_digest": trial.config.digest,
        "seed": trial.seed,
        "environment": trial.environment,
        "resources": dict(trial.resources),
        "ready_s": trial.ready_s,
        "summary": dict(trial.recorded_summary),
        "raw_blob": digest([data["raw_blob"], "edited"]) if trial.measurement is not None else None,
        "failure": {"kind": trial.failure, "message": trial.failure, "log_tail": ""} if trial.failure else None,
    }


def with_measurement(evidence: Evidence, which: Which, edit: Callable[[Measurement], Measurement]) -> Evidence:
    """The measurements of the trials of `which` edited; the summaries follow from them."""

    def each(trial: TrialEvidence) -> TrialEvidence:
        assert trial.measurement is not None
        measurement = edit(trial.measurement)
        summary = summarise(measurement, evidence.deployment.slo)
        return replace(trial, measurement=measurement, summary=summary, recorded_summary=summary)

    return with_trials(evidence, which, each)


def with_records(
    evidence: Evidence, which: Which, edit: Callable[[RequestRecord], RequestRecord], *, counted: bool = True
) -> Evidence:
    """Each record of the trials of `which` edited.

    Args:
        counted: the server's token and request counters follow from the edited records.
    """

    def each(measurement: Measurement) -> Measurement:
        records = tuple(edit(record) for record in measurement.records)
        moved = replace(measurement, records=records, window_s=max(record.end_s for record in records))
        return counting(moved) if counted else moved

    return with_measurement(evidence, which, each)


def counting(measurement: Measurement, **more: float) -> Measurement:
    """The server's counters as its records give them; `more` is added to them."""
    after = counted(measurement.counters_before or {}, measurement.records)
    return replace(measurement, counters_after={name: value + more.get(name, 0.0) for name, value in after.items()})


def identified(
    evidence: Evidence, which: Which, *, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None
) -> Evidence:
    """Other fields of the identities that were read before and after the load."""

    def other(fields: Mapping[str, Any] | None) -> Callable[[Identity], Identity]:
        return lambda identity: replace(identity, **(fields or {}))

    return reidentified(evidence, which, before=other(before), after=other(after))


def reidentified(
    evidence: Evidence, which: Which, *, before: Callable[[Identity], Identity], after: Callable[[Identity], Identity]
) -> Evidence:
    """The identities that were read before and after the load, edited."""

    def edited(measurement: Measurement) -> Measurement:
        first, last = measurement.identity_before, measurement.identity_after
        assert first is not None and last is not None
        return replace(measurement, identity_before=before(first), identity_after=after(last))

    return with_measurement(evidence, which, edited)


def with_evals(evidence: Evidence, which: Which, edit: Callable[[EvalResults], EvalResults]) -> Evidence:
    """What the model said to the suite, edited."""
    return with_trials(
        evidence,
        which,
        lambda trial: replace(trial, evals=edit(trial.evals)) if trial.evals is not None else trial,
    )


def with_entries(evidence: Evidence, edit: Callable[[tuple[Entry, ...]], Iterable[Entry]]) -> Evidence:
    """The ledger edited and chained anew."""
    return replace(evidence, entries=resealed(edit(evidence.entries)))


def with_data(evidence: Evidence, kind: str, edit: Callable[[Entry], Mapping[str, Any]]) -> Evidence:
    """The data of each entry of `kind` edited; the chain is sealed anew."""

    def each(entry: Entry) -> Entry:
        data = edit(entry) if entry.kind == kind else entry.data
        return entry if data is entry.data else replace(entry, data=data, hash="")

    return with_entries(evidence, lambda entries: [each(entry) for entry in entries])


def with_change(evidence: Evidence, **fields: Any) -> Evidence:
    """What would be committed, with other fields; the ledger's entry follows."""
    assert evidence.change is not None
    changed = replace(evidence, change=replace(evidence.change, **fields))
    return with_data(changed, "change", lambda entry: {**entry.data, **_plain(fields)})


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = Change.__dataclass_fields__
    return {name: _json(value) for name, value in fields.items() if name in known}


def _json(value: Any) -> Any:
    if isinstance(value, ManifestChange):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value
