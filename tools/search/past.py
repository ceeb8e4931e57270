"""Past runs: what earlier runs on similar deployments found, as priors for a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, Literal

from pydantic import ValidationError

from tools.canonical import digest
from tools.errors import UserError
from tools.fingerprint import Fingerprint, fingerprint_of
from tools.ledger import Entry, Ledger
from tools.measure.slo import Slo
from tools.measure.summary import lower_is_better
from tools.search.prior import Prior
from tools.targets.knobs import Config, KnobError, KnobSpace, Value

__all__ = ["PROOF", "PastConfig", "PastRun", "PastRuns", "past_priors", "past_runs"]

Proof = Literal["committed", "passed", "tried"]

PROOF: Mapping[Proof, float] = MappingProxyType({"committed": 1.0, "passed": 0.8, "tried": 0.4})
"""What a config is worth by how well it was verified: committed; passed, and nobody wanted the commit; the best of
single launches, which flatters by the noise of a launch."""

LEAST_WEIGHT = 0.1
"""A prior costs a trial: what weighs less isn't worth one before the search has said anything."""


@dataclass(frozen=True, slots=True)
class PastConfig:
    """A config that was better than its baseline."""

    values: Mapping[str, Value]
    changed: frozenset[str]
    "Knobs in which it differs from its own baseline."
    metric: str
    gain: float
    "Relative improvement of the run's objective over its baseline."
    proof: Proof


@dataclass(frozen=True, slots=True)
class PastRun:
    """One earlier run: on what, and what it found. Nothing where nothing was better."""

    id: str
    fingerprint: Fingerprint
    found: PastConfig | None


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The runs of a folder."""

    runs: tuple[PastRun, ...]
    skipped: Mapping[str, str]
    "Why a folder's ledger wasn't read, by the folder's name."


def past_runs(folder: Path, but: str = "") -> PastRuns:
    """All runs in the folders of `folder`, in the order of their names.

    A ledger that is damaged, foreign, of another version or of a run that hadn't come to measure anything is skipped
    with the reason.

    Args:
        but: id of the run that asks.
    """
    runs, skipped = [], {}
    for path in sorted(folder.glob("*/ledger.jsonl")):
        name = path.parent.name
        if name == but:
            continue
        try:
            entries = list(Ledger.read(path))
            runs.append(PastRun(name, fingerprint_of(entries), _found(entries)))
        except (UserError, OSError) as error:
            skipped[name] = str(error)
        except KeyError as error:
            skipped[name] = (
                f"not a run's ledger as they are written today, or of a run that measured nothing: no {error}"
            )
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            skipped[name] = f"not a run's ledger as they are written today: {error}"
    return PastRuns(tuple(runs), skipped)


def past_priors(
    fingerprint: Fingerprint, runs: Sequence[PastRun], limit: int, *, space: KnobSpace, baseline: Config
) -> tuple[Prior, ...]:
    """What `runs` found, as patches of `baseline` within `space`, heaviest first, `limit` at most.

    A prior weighs (1 - distance)² x its PROOF x the share of its changed knobs that can be set here. A knob that isn't
    in `space`, or whose value doesn't fit it, is left out. Equal patches count once, by the heaviest.
    """
    best: dict[str, tuple[float, float, Prior]] = {}
    for run in runs:
        if run.found is None:
            continue
        distance, found = fingerprint.distance(run.fingerprint), run.found
        fitting = _fitting(found.values, space)
        kept = len(found.changed & fitting.keys()) / max(len(found.changed), 1)
        weight = (1 - distance) ** 2 * PROOF[found.proof] * kept
        patch = {name: value for name, value in sorted(fitting.items()) if not _stands(baseline, name, value)}
        if not patch or weight < LEAST_WEIGHT:
            continue
        without = sorted(found.changed - fitting.keys())
        why = (
            f"run {run.id} {_DID[found.proof]} on a deployment at distance {distance:.2f}: {found.metric} "
            f"{found.gain:.0%} better"
            + (f"; without {', '.join(without)}, which can't be set so here" if without else "")
        )
        key = digest(patch)
        if key not in best or best[key][0] < weight:
            best[key] = weight, found.gain, Prior(patch, weight, "past", why)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return tuple(prior for _, (_, _, prior) in ranked[:limit])


_DID: Mapping[Proof, str] = MappingProxyType(
    {"committed": "committed this", "passed": "confirmed this", "tried": "measured this once"}
)


def _fitting(values: Mapping[str, Value], space: KnobSpace) -> dict[str, Value]:
    """The part of `values` that knobs of `space` can take and a proposal may set."""
    fitting = {}
    for knob in space:
        if knob.tunable and knob.name in values:
            try:
                fitting[knob.name] = knob.check(values[knob.name])
            except KnobError:
                continue
    return fitting


def _stands(baseline: Config, name: str, value: Value) -> bool:
    standing = baseline.values.get(name)
    return type(standing) is type(value) and standing == value


def _found(entries: Sequence[Entry]) -> PastConfig | None:
    """The best config of a run: what it confirmed, unless that was refused; else the best of its single launches.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: not in today's form.
    """
    deployment = next(entry.data for entry in entries if entry.kind == "run.started")["deployment"]
    metric, slo = deployment["objective"]["metric"], _slo(deployment["slo"])
    trials = [entry.data for entry in entries if entry.kind == "trial" and not entry.data["failure"]]
    last = {e.kind: e.data for e in entries if e.kind in ("plan", "verdict", "publication", "commit")}
    trusted = {e.data["trial"] for e in entries if e.kind == "judgement" and e.data["status"] == "PASS"}
    standing = [trial for trial in trials if trial["role"] == "baseline" and metric in trial["summary"]]
    if not standing:
        return None
    baseline = standing[0]["config"]
    status = last.get("verdict", {}).get("status")
    if status == "PASS":
        arms = {arm: [t for t in trials if t["role"] == "confirm" and t["arm"] == arm] for arm in ("A", "B")}
        gain = _gain(metric, _mean(metric, arms["B"]), _mean(metric, arms["A"]))
        published = last.get("publication", {}).get("status", "PASS") == "PASS"
        proof: Proof = "committed" if "commit" in last else "passed" if published else "tried"
        return _config(arms["B"][0]["config"], baseline, metric, gain, proof)
    refused = last.get("plan", {}).get("patch") if status == "FAIL" else None
    fewest = min(len(slo.misses(trial["summary"])) for trial in standing)
    candidates = [
        (_gain(metric, trial["summary"][metric], _mean(metric, standing)), trial["config"])
        for trial in trials
        if trial["role"] == "search"
        and trial["id"] in trusted
        and metric in trial["summary"]
        and trial["config"] != baseline
        and trial["proposal"]["patch"] != refused
        and len(slo.misses(trial["summary"])) <= fewest
    ]
    gain, config = max(candidates, key=lambda candidate: candidate[0], default=(0.0, baseline))
    return _config(config, baseline, metric, gain, "tried") if gain > 0 else None


def _config(
    values: Mapping[str, Value], baseline: Mapping[str, Value], metric: str, gain: float, proof: Proof
) -> PastConfig:
    return PastConfig(values, frozenset(Config(values).diff(Config(baseline))), metric, gain, proof)


def _slo(data: Mapping[str, Any]) -> Slo:
    try:
        return Slo.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"slo: {error.errors()[0]['msg']}") from None


def _mean(metric: str, trials: Sequence[Mapping[str, Any]]) -> float:
    return fmean(trial["summary"][metric] for trial in trials)


def _gain(metric: str, value: float, base: float) -> float:
    """Relative improvement; negative where it is worse."""
    ratio = value / base if base else 1.0
    return 1 - ratio if lower_is_better(metric) else ratio - 1
