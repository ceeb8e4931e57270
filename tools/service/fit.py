"""Fit: the replica whose simulation comes closest to what was measured, and how close that is.

Direct estimates see each cost where it stands alone; under load they act together (a prompt read beside decoding
sequences, jitter, the client on the same machine). So every load of the calibration is played again on the estimated
replica, each request sent at the very moment it was, and the costs are moved until the played times agree with the
measured ones. What still differs at the rates is kept as a ratio per statistic (`corrections`), and told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tools.measure.summary import summary_intervals
from tools.service.closest import LARGEST_STEP, closest_replica
from tools.service.estimate import estimate_curve
from tools.service.gaps import Gaps
from tools.service.jobs import jobs_seen
from tools.service.phase import Phase
from tools.service.played_summary import FAMILIES, STATISTICS, played_summary
from tools.service.replica import Replica
from tools.service.simulate import Played, simulate
from tools.service.token_scale import TokenScale

__all__ = ["Fit", "first_sight", "fit_replica"]

_QUANTILES = 41
_MISFIT = 0.10
"Standard deviation, on the log scale, of what a simulation is believed to be off by before anything is seen."
_UNKNOWN = 0.5
"The same of a measured statistic whose interval can't be told: worth little."
_INTERVAL = 3.92
"Length of a 95 % interval in standard deviations."


@dataclass(frozen=True, slots=True)
class Fit:
    """A replica that behaves as the measured server did."""

    replica: Replica
    tokens: TokenScale
    corrections: Mapping[str, float]
    "Measured over played, per flat metric, at the rates between: what the simulation leaves out."
    jitter_s: tuple[float, ...]
    "Quantiles, at equidistant probabilities, of a pure decoding gap as it was stamped, less the curve's step; mean 0."
    seats_are_a_limit: bool
    "Whether the burst was large enough to show it."

    def summary(self, *played: Played) -> dict[str, float]:
        """Flat metrics of played loads, as a measurement would show them."""
        plain = played_summary(*played, jitter_s=self.jitter_s)
        found = {metric: value * self.corrections.get(metric, 1.0) for metric, value in plain.items()}
        for family in FAMILIES:  # each percentile has a correction of its own; none may overtake the next
            known = [name for statistic in STATISTICS[1:] if (name := f"{statistic}_{family}_ms") in found]
            found |= zip(known, accumulate((found[name] for name in known), max), strict=True)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "replica": self.replica.to_json(),
            "tokens": self.tokens.to_json(),
            "corrections": dict(self.corrections),
            "jitter_s": list(self.jitter_s),
            "seats_are_a_limit": self.seats_are_a_limit,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fit:
        """The fit that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        return cls(
            Replica.from_json(data["replica"]),
            TokenScale.from_json(data["tokens"]),
            data["corrections"],
            tuple(data["jitter_s"]),
            data["seats_are_a_limit"],
        )


def fit_replica(name: str, spec_digest: str, phases: Sequence[Phase]) -> Fit:
    """The replica that explains `phases`: a probe, a burst, and any number of rates.

    Raises:
        UserError: the phases hold no answers to learn from.
    """
    probe, burst = (next(phase.records for phase in phases if phase.name == kind) for kind in ("probe", "burst"))
    rates = [phase for phase in phases if phase.rate_rps is not None]
    curve = estimate_curve(name, spec_digest, probe, burst, *(phase.records for phase in rates))
    replica, full = closest_replica(curve, [phase.records for phase in phases], burst)
    jitter_s = _jitter_s(replica, [Gaps.clean(phase.records) for phase in rates or phases])
    return Fit(
        replica=replica,
        tokens=TokenScale.of([(phase.workload, phase.records) for phase in phases]),
        corrections=_corrections(replica, rates, jitter_s),
        jitter_s=jitter_s,
        seats_are_a_limit=full,
    )


def first_sight(name: str, spec_digest: str, phases: Sequence[Phase]) -> Fit:
    """The replica as direct estimates have it, nothing fitted and nothing corrected: good enough to choose rates by.

    Raises:
        UserError: the phases hold no answers to learn from.
    """
    probe, burst = (next(phase.records for phase in phases if phase.name == kind) for kind in ("probe", "burst"))
    curve = estimate_curve(name, spec_digest, probe, burst)
    tokens = TokenScale.of([(phase.workload, phase.records) for phase in phases])
    return Fit(Replica(curve, LARGEST_STEP, 0.5), tokens, {}, (), seats_are_a_limit=False)


def _jitter_s(replica: Replica, gaps: Sequence[Gaps]) -> tuple[float, ...]:
    """What stamping, the network and the machine add to a step. Centred: the fitted steps hold the mean already."""
    sequences = np.concatenate([part.sequences for part in gaps])
    if not len(sequences):
        return ()
    known = {count: replica.step_s(count, 0) for count in set(sequences.tolist())}
    steps_s = np.array([known[count] for count in sequences.tolist()])
    added = np.concatenate([part.step_s for part in gaps]) - steps_s
    return tuple(np.quantile(added - added.mean(), np.linspace(0, 1, _QUANTILES)).tolist())


def _corrections(replica: Replica, rates: Sequence[Phase], jitter_s: Sequence[float]) -> dict[str, float]:
    """Measured over played per metric, over the rates: each ratio weighs as the measured statistic is certain, against
    the belief that none is needed. A P95 of a hundred requests is known to a quarter, and corrects next to nothing.

    Gaps between tokens are of two kinds, with a prompt in the step and without, and a percentile between the two jumps
    from one to the other with the rate; so all their statistics share the correction of their mean.
    """
    logs: dict[str, list[tuple[float, float]]] = {}
    for phase in rates:
        jobs = jobs_seen(phase.records)
        if not jobs:
            continue
        played, measured = played_summary(simulate(replica, jobs), jitter_s=jitter_s), phase.summary()
        spreads = _spreads(phase)
        for metric in (f"{statistic}_{family}_ms" for family in FAMILIES for statistic in STATISTICS):
            own = metric.replace("_ttft_", "_ttft_from_send_").replace("_e2el_", "_e2el_from_send_")
            if measured.get(own) and played.get(metric):
                spread = spreads.get(own.replace("mean_", "p50_"), _UNKNOWN)
                logs.setdefault(metric, []).append((math.log(measured[own] / played[metric]), spread**-2))
    found = {}
    for metric, pairs in logs.items():
        weight = sum(certainty for _, certainty in pairs)
        found[metric] = math.exp(sum(log * certainty for log, certainty in pairs) / (weight + _MISFIT**-2))
    for family in FAMILIES:
        for statistic in STATISTICS[1:] if family == "itl" else ():
            found[f"{statistic}_itl_ms"] = found.get("mean_itl_ms", 1.0)
        if f"p95_{family}_ms" in found:  # too few requests for a P99 of their own: a P95's is the best guess
            found.setdefault(f"p99_{family}_ms", found[f"p95_{family}_ms"])
    return found


def _spreads(phase: Phase) -> dict[str, float]:
    """Standard deviation, on the log scale, of each percentile that this load pins down; at least 1 %."""
    intervals = summary_intervals(phase.measurement)
    return {
        metric: max(math.log(interval.high / interval.low) / _INTERVAL, 0.01)
        for metric, interval in intervals.items()
        if metric.endswith("_ms") and interval.low > 0
    }
