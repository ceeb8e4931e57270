"""Is any measured latency below what the machine can physically do?"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "physics.floor"


_BUNCHED = "whole answers took long enough, so tokens were held back on the way, or the client was late to read them"


def verify(evidence: Evidence) -> Verdict:
    """Median TTFT, TPOT and E2E of every trial, in ms, against the roofline's floors (`tools.profile.physics`): prompt
    arithmetic, weights and context read for each token; E2E has to hold both for as many tokens as came.

    A workload whose answers have one token has no TPOT; its TTFT is asked all the same.
    """
    if evidence.no_physics:
        return passed(RULE, f"no floor follows from the machine: {evidence.no_physics}")
    if "ttft_ms" not in evidence.floors_ms or "tpot_ms" not in evidence.floors_ms:
        return error(RULE, "the machine's roofline is unknown")
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    closest: dict[str, tuple[float, float, float]] = {}
    for trial, measured in evidence.measured:
        floors = _floors(evidence.floors_ms, measured)
        known = {name: trial.summary.get(f"median_{name}") for name in floors}
        if known["ttft_ms"] is None:
            return error(RULE, f"trial {trial.id} has no latency to compare", trial)
        for name, value in known.items():
            if value is None:
                continue
            if not value >= floors[name]:
                told = _told(trial, name, value, floors[name])
                if name == "tpot_ms" and _whole_answers_possible(known, floors):
                    return inconclusive(RULE, f"{told}; {_BUNCHED}", trial)
                return failed(RULE, told, trial)
            ratio = value / floors[name] if floors[name] > 0 else float("inf")
            closest[name] = min((ratio, value, floors[name]), closest.get(name, (float("inf"), value, floors[name])))
    told = ", ".join(f"{name} {value:.2f} (floor {floor:.2f})" for name, (_, value, floor) in sorted(closest.items()))
    return passed(RULE, f"the medians closest to the roofline's floors lie above them: {told}", *evidence.trials)


def _floors(floors_ms: Mapping[str, float], measured: Measurement) -> dict[str, float]:
    """The run's floors, and the one of E2E for answers as long as this trial's."""
    tokens = [record.output_tokens or 1 for record in measured.records if record.outcome == "ok"]
    more = median(tokens) - 1 if tokens else 0
    ttft_ms, tpot_ms = floors_ms["ttft_ms"], floors_ms["tpot_ms"]
    # If each request lies above its own floor, so does the median of all.
    return {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "e2el_ms": ttft_ms + more * tpot_ms}


def _whole_answers_possible(known: Mapping[str, float | None], floors: Mapping[str, float]) -> bool:
    """Whether first tokens and whole answers took as long as they must: only the tokens between are too fast."""
    return all((value := known[name]) is not None and value >= floors[name] for name in ("ttft_ms", "e2el_ms"))


def _told(trial: TrialEvidence, name: str, value: float, floor: float) -> str:
    return f"trial {trial.id} claims a median {name} of {value:.2f}, the roofline's floor is {floor:.2f}"
