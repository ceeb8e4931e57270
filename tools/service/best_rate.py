"""BestRate: the highest rate at which a promise is kept, with a distance to the cliff, predicted and then verified.

A load at every rate would cost hours; a prediction alone is a claim. So each rate that is tried is the best one
according to the replica as far as it is known, and each measured load corrects the replica's word, by how much earlier
or later it comes to where the server was, before the next. Measured points are made monotone first: more load never
makes a server faster, so a lucky load at a high rate doesn't outweigh a miss below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.measure.slo import Slo
from tools.service.isotonic import isotonic
from tools.service.load_spec import at_rate
from tools.service.point import Point
from tools.service.predict import Predictor, largest

__all__ = ["CLIFF_AHEAD", "CLIFF_MISS", "BestRate", "best_rate"]

CLIFF_AHEAD = 0.10
"""The guard looks this much further: traffic that grows by so much overnight must not be a disaster."""

CLIFF_MISS = 1.5
"""At the guarded rate no bound may be missed by more than this factor, and the queue must not grow without end."""

_SAME = 0.05
"Rates closer than this are the same rate: a load can't tell them apart."
_BLIND = 1.3
"By how much the load is cut when a bound was missed that nothing was predicted of."
_MOST_PACE = 4.0
_LOWEST = 0.02
"Share of the capacity below which a promise is called unkeepable."


@dataclass(frozen=True, slots=True)
class BestRate:
    """The answer, and how it was come by."""

    rate_rps: float | None
    "None where no rate keeps the promise."
    reason: str
    verified: bool
    "Whether a real load at this rate kept the promise."
    loads: int
    "Loads that the verification took."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BestRate:
        """The answer that `to_json` wrote."""
        return cls(**data)


def best_rate(
    predictor: Predictor,
    slo: Slo,
    points: Sequence[Point] = (),
    measure: Callable[[float], Point | None] | None = None,
    *,
    max_loads: int = 3,
) -> tuple[BestRate, tuple[Point, ...]]:
    """The best rate under `slo`, and the points that were measured for it.

    Args:
        points: loads that were driven already.
        measure: drives a load at a rate; None from it means that the time is up. Without it the answer is a prediction.
        max_loads: most calls of `measure`.
    """
    search = _Search(predictor, slo, list(points))
    foretold = search.guarded()
    if measure is None or foretold is None:
        return search.unverified(foretold), ()
    taken: list[Point] = []
    rate_rps: float | None = foretold
    while rate_rps is not None and len(taken) < max_loads:
        point = measure(rate_rps)
        if point is None:
            break
        taken.append(point)
        search.points.append(point)
        rate_rps = search.next_after(rate_rps)
    return search.verified(taken), tuple(taken)


class _Search:
    def __init__(self, predictor: Predictor, slo: Slo, points: list[Point]) -> None:
        self._predictor = predictor
        self._bounds = slo.bounds()
        alone = predictor.at(_LOWEST * predictor.capacity_rps).metrics
        self._foretold = {name: bound for name, bound in self._bounds.items() if name in alone}
        "Bounds that the replica can say something about; the others are judged by real loads alone."
        self.points = points
        self._pace = 1.0
        "The server at a rate behaves as the replica does at this many times the rate."

    def guarded(self) -> float | None:
        """The best rate that the replica promises, cliff guard included. Where it can't say anything about the promise,
        the most that it can serve: real loads begin there, and nobody is offered it without one."""
        capacity_rps = self._predictor.capacity_rps
        found = largest(self._safe, _LOWEST * capacity_rps, capacity_rps / (1 + CLIFF_AHEAD))
        return None if found is None else found / self._pace

    def next_after(self, tried_rps: float) -> float | None:
        """Which rate to try after `tried_rps`; None where nothing is left to learn."""
        last = self.points[-1]
        self._pace = self._pace_of(last)
        kept, missed = self._bracket()
        wanted = self.guarded() or tried_rps / 2
        if self._miss(last.summary) > 1:
            wanted = min(wanted, tried_rps / (1 + _SAME))
        elif abs(wanted / tried_rps - 1) < _SAME:
            return None
        wanted = min(max(wanted, kept * (1 + _SAME)), missed / (1 + _SAME))
        return None if wanted <= kept * (1 + _SAME / 2) else wanted

    def unverified(self, foretold: float | None) -> BestRate:
        unforeseen = ", ".join(name for name in self._bounds if name not in self._foretold)
        if not self._foretold:
            sentence = f"no rate can be predicted: nothing is foretold of {unforeseen}, and no load has verified a rate"
            return BestRate(None, sentence, False, 0)
        if foretold is not None:
            blind = f" (nothing is foretold of {unforeseen})" if unforeseen else ""
            return BestRate(foretold, f"predicted, no load has verified it{blind}; {self._limit(foretold)}", False, 0)
        alone = self._predictor.at(_LOWEST * self._predictor.capacity_rps).metrics
        worst = max(self._foretold, key=lambda name: self._ratio(name, alone))
        sentence = f"{worst} is {alone[worst]:.4g} with next to no load, promised {self._bounds[worst]:g}"
        return BestRate(None, f"no rate keeps the promise: {sentence}", False, 0)

    def verified(self, taken: Sequence[Point]) -> BestRate:
        if not taken:
            return self.unverified(self.guarded())
        kept, _ = self._bracket()
        if held := [point for point in taken if point.rate_rps <= kept]:
            best = max(held, key=lambda point: point.rate_rps)
            spare = 1 - self._miss(best.summary)
            how = f"with {spare:.0%} to spare" if spare >= 0 else "levelled over neighbouring loads"
            sentence = f"a load of {best.requests} requests kept the promise, {how}; {self._limit(best.rate_rps)}"
            return BestRate(best.rate_rps, sentence, True, len(taken))
        lowest = min(taken, key=lambda point: point.rate_rps)
        missed = max(self._bounds, key=lambda name: self._ratio(name, lowest.summary))
        found = lowest.summary.get(missed)
        told = "not measurable" if found is None else f"{found:.4g}"
        sentence = (
            f"every rate that was tried missed the promise; the lowest, {lowest.rate_rps:.3g} per second, had "
            f"{missed} at {told}, promised {self._bounds[missed]:g}"
        )
        if kept:
            return BestRate(kept, f"{sentence}; this one, of the calibration itself, kept it", True, len(taken))
        return BestRate(None, sentence, False, len(taken))

    def _bracket(self) -> tuple[float, float]:
        """(highest rate that kept the promise, lowest above it that missed it), of the measured points made monotone;
        0 and infinity where there's none."""
        ordered = sorted(self.points, key=lambda point: point.rate_rps)
        # A promise that can't be told from a load is missed by far, not by infinity: one mustn't drown its neighbours.
        logs = [math.log(min(max(self._miss(point.summary), 1e-3), 1e3)) for point in ordered]
        level = isotonic(logs, [float(point.requests) for point in ordered])
        kept = [point.rate_rps for point, log in zip(ordered, level, strict=True) if log <= 0]
        missed = [point.rate_rps for point, log in zip(ordered, level, strict=True) if log > 0]
        return max(kept, default=0.0), min(missed, default=math.inf)

    def _pace_of(self, point: Point) -> float:
        """How much faster the replica must be driven than the server was to show what was measured in `point`, on the
        bound that is nearest: capacity is what a wrong curve gets wrong, and it stretches the axis of rates."""
        shared = [name for name in self._foretold if name in point.summary and name in point.predicted]
        if not shared:
            return self._pace * (_BLIND if self._miss(point.summary) > 1 else 1.0)
        nearest = max(shared, key=lambda name: self._ratio(name, point.summary))
        capacity_rps = self._predictor.capacity_rps

        def as_fast(rate_rps: float) -> bool:
            spec = at_rate(self._predictor.spec, rate_rps, point.requests)
            return self._predictor.load(spec, point.seed)[nearest] <= point.summary[nearest]

        found = largest(as_fast, _LOWEST * capacity_rps, 2 * capacity_rps, _SAME / 2) or _LOWEST * capacity_rps
        return min(max(found / point.rate_rps, 1 / _MOST_PACE), _MOST_PACE)

    def _safe(self, rate_rps: float) -> bool:
        here = self._predictor.at(rate_rps).metrics
        ahead = self._predictor.at(rate_rps * (1 + CLIFF_AHEAD)).metrics
        return all(self._ratio(name, here) <= 1 and self._ratio(name, ahead) <= CLIFF_MISS for name in self._foretold)

    def _limit(self, rate_rps: float) -> str:
        """What stands in the way of more."""
        paced_rps = rate_rps * self._pace
        used = f"{paced_rps / self._predictor.capacity_rps:.0%} of the capacity is used"
        if not self._foretold:
            return f"{used}, and what comes first beyond can't be predicted"
        ahead = self._predictor.at(paced_rps * (1 + CLIFF_AHEAD)).metrics
        nearest = max(self._foretold, key=lambda name: self._ratio(name, ahead))
        return (
            f"{nearest} comes first: {self._ratio(nearest, ahead):.2f} times its bound is predicted at "
            f"{CLIFF_AHEAD:.0%} more load; {used}"
        )

    def _miss(self, metrics: Mapping[str, float]) -> float:
        """The worst bound: found over promised."""
        return max(self._ratio(name, metrics) for name in self._bounds)

    def _ratio(self, name: str, metrics: Mapping[str, float]) -> float:
        found = metrics.get(name)
        if found is None:
            return math.inf
        bound = self._bounds[name]
        return found / bound if bound else (math.inf if found else 0.0)
