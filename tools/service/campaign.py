"""Campaign: drives the loads of a calibration against a server and makes a ServiceCalibration of them.

One probe and one burst bound what the server can do; the rates between are chosen from them. Each load has a seed of
its own, derived from the campaign's, so none finds another's prompts in a cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tools.errors import UserError
from tools.measure.calibrate import derive_seed
from tools.measure.client import drive, warm_up
from tools.measure.dialect import Dialect
from tools.measure.floor import Floor
from tools.measure.slo import Slo
from tools.measure.summary import MIN_SAMPLES_P99
from tools.measure.workload import WorkloadSpec, materialise
from tools.service.best_rate import BestRate, best_rate
from tools.service.calibration import ServiceCalibration
from tools.service.fit import first_sight, fit_replica
from tools.service.load_spec import all_at_once, at_rate, mix_digest, one_at_a_time
from tools.service.phase import Phase
from tools.service.plan import UTILISATIONS, CampaignPlan
from tools.service.point import Point
from tools.service.predict import Predictor
from tools.service.questions import calibration_doubts
from tools.targets.external.change import require_undisturbed
from tools.targets.target import Endpoint

__all__ = ["CampaignProgress", "calibrate_service"]

_MOST_LOST = {"bounds": 0.1, "rate": 0.5, "verify": 1.0}
"""Share of lost requests from which a load tells nothing about the server's speed: of the probe and the burst; of a
rate, which may have been chosen from too high a capacity; of one that verifies, where to be lost is to miss."""


class CampaignProgress(Protocol):
    """Who is told how it goes."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None: ...

    def requests(self, done: int, total: int, seconds_left: float | None) -> None: ...


class _Silent:
    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        pass

    def requests(self, done: int, total: int, seconds_left: float | None) -> None:
        pass


def calibrate_service(
    endpoint: Endpoint,
    spec: WorkloadSpec,
    slo: Slo,
    *,
    target: str,
    requests: int,
    budget_s: float,
    seed: int | None = None,
    reset: Callable[[], None] | None = None,
    progress: CampaignProgress | None = None,
    verify_loads: int = 2,
    workers: int = 1,
    floor: Floor | None = None,
) -> ServiceCalibration:
    """Measure `endpoint` with the mix of `spec`, fit a replica to it, predict, and find the best rate under `slo`.

    Args:
        target: what to call the server in the result.
        requests: most that are sent for the curve; each load that verifies the best rate sends `spec.requests` more.
        budget_s: seconds for all of it. The loads are made to fit; one that verifies isn't begun if it wouldn't end.
        reset: empties the server's prefix cache; called before each load.
        verify_loads: most loads that verify the best rate; 0 leaves it a prediction.
        workers: processes that send the loads.
        floor: the client's own calibration, which tells whether the client was the limit.

    Raises:
        UserError: requests are lost, or the budget is too small to learn anything.
        LaunchFailed: the server is somebody else's, and turned us away or went away.
    """
    campaign = _Campaign(
        endpoint,
        spec,
        spec.seed if seed is None else seed,
        deadline_s=time.monotonic() + budget_s,
        reset=reset,
        progress=_Silent() if progress is None else progress,
        workers=workers,
    )
    return campaign.run(target, slo, CampaignPlan.of(requests), verify_loads, floor)


class _Campaign:
    def __init__(
        self,
        endpoint: Endpoint,
        spec: WorkloadSpec,
        seed: int,
        *,
        deadline_s: float,
        reset: Callable[[], None] | None,
        progress: CampaignProgress,
        workers: int,
    ) -> None:
        self._endpoint, self._spec, self._seed, self._deadline_s = endpoint, spec, seed, deadline_s
        self._reset, self._progress, self._workers = reset, progress, workers
        self._started_at = time.time()
        self._begin_s = time.monotonic()
        self._dialect: Dialect | None = None
        self._sent = 0

    def run(
        self, target: str, slo: Slo, plan: CampaignPlan, verify_loads: int, floor: Floor | None
    ) -> ServiceCalibration:
        probe = self._drive("probe", one_at_a_time(self._spec, plan.probe))
        burst = self._drive("burst", all_at_once(self._spec, plan.burst, self._left_s()))
        first = Predictor(first_sight(target, mix_digest(self._spec), [probe, burst]), self._spec)
        rates = tuple(round(share * first.capacity_rps, 4) for share in UTILISATIONS)

        def length_s(requests: int, some_rps: tuple[float, ...] = rates) -> float:
            return sum(first.length_s(at_rate(self._spec, rate, requests), self._seed) for rate in some_rps)

        fitting = plan.within(self._left_s(), length_s)
        phases = [probe, burst]
        for place, rate_rps in enumerate(rates):
            spec, left_s = at_rate(self._spec, rate_rps, fitting.rate), length_s(fitting.rate, rates[place:])
            name = f"{rate_rps:.3g} per second"
            phases.append(self._drive(name, spec, rate_rps, left_s, most_lost=_MOST_LOST["rate"]))
        self._progress.phase("fit", "playing what was measured", None)
        fit = fit_replica(target, mix_digest(self._spec), phases)
        predictor = Predictor(fit, self._spec)
        points = self._points(target, phases, predictor, slo)
        best: BestRate | None = None
        verifying: tuple[Point, ...] = ()
        verified: list[Phase] = []
        if slo.bounds():
            self._progress.phase("best rate", "searching the predictions", None)
            measure = self._verifier(predictor, slo, verified) if verify_loads else None
            best, verifying = best_rate(predictor, slo, points, measure, max_loads=max(verify_loads, 1))
        points = sorted([*points, *verifying], key=lambda point: point.rate_rps)
        return ServiceCalibration(
            target=target,
            model=self._endpoint.model,
            workload=self._spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
            seed=self._seed,
            started_at=self._started_at,
            seconds=time.monotonic() - self._begin_s,
            requests_sent=self._sent,
            fit=fit,
            points=tuple(points),
            predictions=predictor.sweep([best.rate_rps] if best and best.rate_rps else ()),
            knee_rps=predictor.knee_rps(),
            capacity_rps=predictor.capacity_rps,
            slo=slo.bounds(),
            best_rate=best,
            doubts=calibration_doubts(
                fit, phases, points, slo, floor, verifying=verified, planned=plan, driven=fitting
            ),
        )

    def _points(self, target: str, phases: list[Phase], predictor: Predictor, slo: Slo) -> list[Point]:
        """The rates between, by rate. The middle one is foretold by a fit without it, which costs no request and tells
        how far to trust the curve where nobody drove."""
        rates = [phase for phase in phases if phase.rate_rps is not None]
        middle = rates[len(rates) // 2]
        others = fit_replica(target, mix_digest(self._spec), [phase for phase in phases if phase is not middle])
        apart = Predictor(others, self._spec)
        return [
            _point(phase, apart if phase is middle else predictor, slo, held_out=phase is middle) for phase in rates
        ]

    def _verifier(self, predictor: Predictor, slo: Slo, driven: list[Phase]) -> Callable[[float], Point | None]:
        """Drives a load at a rate, whose outcome was predicted before; None where it wouldn't end in time. Each load is
        appended to `driven`."""
        needs_p99 = any(name.startswith("p99_") for name in slo.bounds())
        requests = max(self._spec.requests, MIN_SAMPLES_P99) if needs_p99 else self._spec.requests

        def measure(rate_rps: float) -> Point | None:
            spec = at_rate(self._spec, rate_rps, requests)
            name, length_s = f"verify {rate_rps:.3g} per second", predictor.length_s(spec, self._seed)
            if length_s > self._left_s():
                return None
            phase = self._drive(name, spec, rate_rps, length_s, most_lost=_MOST_LOST["verify"])
            driven.append(phase)
            return _point(phase, predictor, slo, held_out=True)

        return measure

    def _drive(
        self,
        name: str,
        spec: WorkloadSpec,
        rate_rps: float | None = None,
        loads_left_s: float | None = None,
        *,
        most_lost: float = _MOST_LOST["bounds"],
    ) -> Phase:
        workload = materialise(spec, derive_seed(self._seed, f"service/{name}"))
        if self._dialect is None:
            self._progress.phase("warm up", self._endpoint.base_url, None)
            self._dialect = warm_up(self._endpoint, workload)
        if self._reset is not None:
            self._reset()
        self._progress.phase(name, f"{len(workload.requests)} requests", loads_left_s)
        load = drive(
            self._endpoint,
            workload,
            dialect=self._dialect,
            on_progress=self._progress.requests,
            workers=self._workers,
        )
        self._sent += len(workload.requests)
        if self._endpoint.external:
            require_undisturbed(self._endpoint.base_url, load.records)
        lost = [record for record in load.records if record.outcome != "ok"]
        if len(lost) > most_lost * len(load.records):
            raise UserError(
                f"calibrate, {name}: expected {len(load.records)} answers, {len(lost)} requests were lost; the first "
                f"one: {lost[0].error}. Look at the server's log, or make the workload smaller"
            )
        return Phase(name, workload, load, rate_rps)

    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()


def _point(phase: Phase, predictor: Predictor, slo: Slo, *, held_out: bool) -> Point:
    assert phase.rate_rps is not None
    predicted = predictor.load(phase.workload.spec, phase.workload.seed)
    return Point(
        phase.rate_rps, len(phase.records), phase.workload.seed, phase.summary(slo), predicted, held_out=held_out
    )
