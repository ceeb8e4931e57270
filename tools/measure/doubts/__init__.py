"""Doubts: what a measurement says against itself. One question per file, each a pure function of a `Case`.

A doubt that is `invalid` means that the numbers aren't the server's (the client was the limit, the cache was warm, the
counts contradict each other); the others say how to read them.
"""

from __future__ import annotations

from tools.measure.doubts.buffered import buffered
from tools.measure.doubts.client_limited import client_limited
from tools.measure.doubts.clock_skew import clock_skew
from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.doubts.drift import drift
from tools.measure.doubts.early_chunk import early_chunk
from tools.measure.doubts.impossible_speed import impossible_speed
from tools.measure.doubts.multi_token_chunks import multi_token_chunks
from tools.measure.doubts.over_saturated import over_saturated
from tools.measure.doubts.prefix_hits import prefix_hits
from tools.measure.doubts.token_mismatch import token_mismatch
from tools.measure.doubts.too_few import too_few
from tools.measure.doubts.unanswered import unanswered
from tools.measure.doubts.warm_up import warm_up
from tools.measure.floor import Floor
from tools.measure.measurement import Measurement
from tools.measure.slo import Slo
from tools.measure.workload import Workload

__all__ = ["QUESTIONS", "Case", "Doubt", "doubts"]

QUESTIONS = (
    client_limited,
    impossible_speed,
    token_mismatch,
    prefix_hits,
    clock_skew,
    unanswered,
    early_chunk,
    buffered,
    over_saturated,
    warm_up,
    drift,
    multi_token_chunks,
    too_few,
)
"""In the order in which their doubts are told: those that make a measurement invalid first."""


def doubts(
    measurement: Measurement,
    workload: Workload | None = None,
    floor: Floor | None = None,
    slo: Slo | None = None,
) -> tuple[Doubt, ...]:
    """All doubts about `measurement`, invalid ones first. What isn't given is asked nothing about: no prefix hits
    without the workload, no chunk rate without the client's floor, no missing percentiles without a promise."""
    case = Case(measurement, workload, floor, slo)
    found = [doubt for question in QUESTIONS if (doubt := question(case)) is not None]
    return tuple(sorted(found, key=lambda doubt: not doubt.invalid))
