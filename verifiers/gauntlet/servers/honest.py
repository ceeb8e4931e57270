"""Honest servers: what is fast, slow, busy or unchanged, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HONEST", "WORKLOAD", "HonestServer"]

_CALM = frozenset({"soundness.doubts", "drift.bracket"})
"On a machine that is busy with other things, a measurement may be refused as such; it is repeated before that."
_NO_GAIN = frozenset({"improvement.primary"})


@dataclass(frozen=True)
class HonestServer:
    """A deployment whose servers tell the truth."""

    id: str
    what: str
    gain: float
    "Wait for a first token with the candidate, over the baseline's."
    ttft_s: float = 0.060
    itl_s: float = 0.007
    deployment: Mapping[str, Any] = field(default_factory=dict)
    "Sections of the deployment that differ."
    may_refuse: frozenset[str] = _CALM
    must_refuse: frozenset[str] = frozenset()
    questioned: bool = False
    "Whether its servers are asked the evaluation suite."

    @property
    def allowed(self) -> frozenset[str]:
        return self.may_refuse | self.must_refuse


WORKLOAD: Mapping[str, Any] = {
    "class": "chat",
    "requests": 16,
    "system_prompt_tokens": 48,
    "prompt_tokens": {"min": 16, "max": 96},
    "output_tokens": {"min": 6, "max": 10},
    "arrivals": {"kind": "poisson", "rate_rps": 60},
    "timeout_s": 10,
}
"""Of the loads over HTTP: a fraction of a second each."""


def _workload(**changes: Any) -> dict[str, Any]:
    return {"workload": {**WORKLOAD, **changes}}


_UNSURE = _CALM | {"overfit.gain_kept", "tails.kept", "slices.kept"}

HONEST: tuple[HonestServer, ...] = (
    HonestServer("w01", "faster by 40 %, and asked everything", 0.6, questioned=True),
    HonestServer("w02", "slow and correct", 0.6, ttft_s=0.25, itl_s=0.03),
    HonestServer("w03", "a burst", 0.6, ttft_s=0.5, itl_s=0.05, deployment=_workload(arrivals={"kind": "burst"})),
    HonestServer(
        "w04",
        "answers of one token",
        0.6,
        deployment={**_workload(output_tokens=1), "slo": {"ttft_ms": {"p95": 1000}}},
    ),
    HonestServer("w05", "no shared prefix", 0.6, deployment=_workload(system_prompt_tokens=0)),
    HonestServer("w06", "no change at all", 1.0, may_refuse=_UNSURE, must_refuse=_NO_GAIN),
)
