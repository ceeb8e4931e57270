"""What to doubt about a calibration, each in a sentence that says what it means for the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tools.measure.doubts import Doubt, doubts
from tools.measure.floor import Floor
from tools.measure.slo import Slo
from tools.service.fit import Fit
from tools.service.phase import Phase
from tools.service.plan import CampaignPlan
from tools.service.point import Point

__all__ = ["calibration_doubts"]

_FAR = 0.25
"Error of a P95 TTFT at a rate that the fit has seen from which the model doesn't describe the server."
_OF_A_WHOLE_RUN = ("too_few", "warm_up", "unanswered")
"Questions about a load that is to stand alone; one of a calibration is one of several."
_OF_A_RATE = ("over_saturated", "drift")
"Questions about a load that is meant to be steady; the probe and the burst aren't."


def calibration_doubts(
    fit: Fit,
    phases: Sequence[Phase],
    points: Sequence[Point],
    slo: Slo,
    floor: Floor | None,
    *,
    verifying: Sequence[Phase],
    planned: CampaignPlan,
    driven: CampaignPlan,
) -> tuple[Doubt, ...]:
    """All doubts that apply, those that make the numbers useless first.

    Args:
        phases: the loads that the curve was fitted to.
        points: all rates that were driven, with those of `verifying`.
        verifying: the loads that judged the best rate.
        planned, driven: what was to be sent for the curve, and what there was time for.
    """
    found = [
        *_loads([*phases, *verifying], floor),
        *_seats(fit, phases),
        *_losses(phases),
        *_errors(points),
        *_tokens(fit, phases),
        *_time(planned, driven),
        *_unforeseen(points, slo, judged=len(verifying) > 0),
    ]
    return tuple(sorted(found, key=lambda doubt: not doubt.invalid))


def _loads(phases: Sequence[Phase], floor: Floor | None) -> Iterator[Doubt]:
    """What the loads say against themselves; each doubt once, of the load that it came up in first, and once more
    where it makes another one's numbers useless."""
    seen: set[tuple[str, bool]] = set()
    for phase in phases:
        unasked = _OF_A_WHOLE_RUN if phase.rate_rps is not None else _OF_A_WHOLE_RUN + _OF_A_RATE
        for doubt in doubts(phase.measurement, phase.workload, floor):
            if (doubt.name, doubt.invalid) not in seen and doubt.name not in unasked:
                seen |= {(doubt.name, doubt.invalid), (doubt.name, False)}
                yield replace(doubt, sentence=f"at {phase.name}: {doubt.sentence}")


def _seats(fit: Fit, phases: Sequence[Phase]) -> Iterator[Doubt]:
    if not fit.seats_are_a_limit:
        burst = next(phase for phase in phases if phase.name == "burst")
        yield Doubt(
            "seats",
            False,
            f"the burst of {len(burst.records)} requests never made the server keep one waiting for a seat: it may "
            f"hold more than {fit.replica.curve.seats} at once, and serve more than the capacity told here",
        )


def _losses(phases: Sequence[Phase]) -> Iterator[Doubt]:
    lost = [record for phase in phases for record in phase.records if record.outcome != "ok"]
    if lost:
        sent = sum(len(phase.records) for phase in phases)
        yield Doubt(
            "unanswered",
            False,
            f"{len(lost)} of {sent} requests were lost, and the curve is of those that were answered; the first: "
            f"{lost[0].error}",
        )


def _errors(points: Sequence[Point]) -> Iterator[Doubt]:
    for point in points:
        error = point.error("p95_ttft_ms")
        if error is not None and abs(error) > _FAR:
            yield Doubt(
                "misfit",
                False,
                f"at {point.rate_rps:.3g} per second P95 TTFT was predicted {error:+.0%} off what was measured: the "
                "server doesn't behave as the model has it, or something else ran on the machine",
            )


def _tokens(fit: Fit, phases: Sequence[Phase]) -> Iterator[Doubt]:
    ok = [record for phase in phases for record in phase.records if record.outcome == "ok"]
    if fit.tokens.output_share < 0.95:
        yield Doubt(
            "short_answers",
            False,
            f"answers have {fit.tokens.output_share:.0%} of the tokens that were asked for; predictions take all of "
            "them to be shorter by this share",
        )
    sharing = any(phase.workload.declared_sharing > 0 for phase in phases)
    if sharing and all(record.cached_tokens is None for record in ok):
        yield Doubt(
            "cache_untold",
            False,
            "the server doesn't say which prompt tokens it took from its cache, so a token costs the mean of cached "
            "and uncached ones",
        )
    if fit.replica.curve.prefill_s_per_token == 0:
        yield Doubt(
            "flat_prefill",
            False,
            "longer prompts didn't take longer to be read, so the curve holds for this mix of lengths alone",
        )


def _time(planned: CampaignPlan, driven: CampaignPlan) -> Iterator[Doubt]:
    if driven.rate < planned.rate:
        yield Doubt(
            "short_of_time",
            False,
            f"the time budget allowed {driven.rate} of {planned.rate} requests a rate; raise --budget for a better fit",
        )


def _unforeseen(points: Sequence[Point], slo: Slo, *, judged: bool) -> Iterator[Doubt]:
    how = (
        "it was judged by the real loads alone"
        if judged
        else "no real load judged it, so nobody knows whether it is kept; give --verify 1 or more and a longer --budget"
    )
    for name in slo.bounds():
        if points and not any(name in point.predicted for point in points):
            yield Doubt("unpredicted", False, f"{name} isn't predicted at these loads' size; {how}")
