"""The loads of a calibration: one mix of requests, sent one at a time, all at once, or at a rate."""

from __future__ import annotations

from typing import Any

from tools.canonical import digest
from tools.errors import UserError
from tools.measure.arrivals import ArrivalSpec, Burst, Closed, Poisson, Ramp, Replay, mean_rate_rps
from tools.measure.lengths import LengthSpec
from tools.measure.workload import WorkloadSpec

__all__ = ["all_at_once", "at_load", "at_rate", "mix_digest", "one_at_a_time"]

_SPREAD = 4
"The probe's longest prompts over its shortest, where the workload's own vary less: a slope needs a lever."


def at_rate(spec: WorkloadSpec, rate_rps: float, requests: int | None = None) -> WorkloadSpec:
    """The mix of `spec` at `rate_rps` conversation starts a second, arriving as it says; as a Poisson process where it
    says no rate (a burst, a closed loop).

    Raises:
        UserError: the spec replays moments of a log, and not enough for `requests`.
    """
    return _changed(spec, arrivals=_scaled(spec.arrivals, rate_rps), requests=requests or spec.requests)


def at_load(spec: WorkloadSpec, factor: float) -> WorkloadSpec:
    """The mix of `spec` offered `factor` times as hard: starts per second, or concurrency (rounded, at least 1).

    A burst has nothing to scale and stays as it is, as does everything at 1.
    """
    if factor == 1.0 or isinstance(spec.arrivals, Burst):
        return spec
    if isinstance(spec.arrivals, Closed):
        seats = max(1, round(spec.arrivals.concurrency * factor))
        return _changed(spec, arrivals=spec.arrivals.model_copy(update={"concurrency": seats}))
    rate_rps = mean_rate_rps(spec.arrivals)
    return spec if rate_rps is None else at_rate(spec, rate_rps * factor)


def one_at_a_time(spec: WorkloadSpec, requests: int) -> WorkloadSpec:
    """The mix of `spec` without company, its prompt lengths spread so that the cost of a token can be told from that of
    a request."""
    changes: dict[str, Any] = {"arrivals": Closed(kind="closed", concurrency=1), "requests": requests}
    lengths = spec.prompt_tokens
    if lengths is not None and lengths.max < _SPREAD * lengths.min:
        shortest = max(min(lengths.min, lengths.max // _SPREAD), min(spec.least_new_tokens, _shortest_prompt()))
        changes["prompt_tokens"] = LengthSpec(min=shortest, max=lengths.max)
    return _changed(spec, **changes)


def all_at_once(spec: WorkloadSpec, requests: int, patience_s: float) -> WorkloadSpec:
    """The mix of `spec` in one burst. Nobody is to be given up for waiting: `patience_s` bounds the whole load."""
    return _changed(spec, arrivals=Burst(kind="burst"), requests=requests, timeout_s=max(spec.timeout_s, patience_s))


def mix_digest(spec: WorkloadSpec) -> str:
    """sha256 of what is asked, without how often: two specs with the same mix have the same service curve."""
    how_often = {"seed", "requests", "arrivals", "warmup_requests", "timeout_s"}
    return digest(spec.model_dump(mode="json", by_alias=True, exclude=how_often))


def _shortest_prompt() -> int:
    from tools.measure.prose import INDEX_WORDS, SALT_WORDS

    return INDEX_WORDS + SALT_WORDS


def _changed(spec: WorkloadSpec, **changes: Any) -> WorkloadSpec:
    """`spec` with `changes`, validated anew."""
    fields = {name: getattr(spec, name) for name in spec.model_fields_set} | changes
    return WorkloadSpec.model_validate(fields)


def _scaled(arrivals: ArrivalSpec, rate_rps: float) -> ArrivalSpec:
    match arrivals:
        case Burst() | Closed():
            return Poisson(kind="poisson", rate_rps=rate_rps)
        case Ramp():
            scale = rate_rps / ((arrivals.from_rps + arrivals.to_rps) / 2)
            return arrivals.model_copy(
                update={"from_rps": arrivals.from_rps * scale, "to_rps": arrivals.to_rps * scale}
            )
        case Replay():
            own_rps = mean_rate_rps(arrivals)
            if own_rps is None:
                raise UserError("arrivals: expected a replay of moments that differ, found one moment; it has no rate")
            return arrivals.model_copy(update={"speed": arrivals.speed * rate_rps / own_rps})
        case _:
            return arrivals.model_copy(update={"rate_rps": rate_rps})
