"""Fingerprint: what a deployment is, as facts that can be compared with another's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Any

from tools.ledger import Entry

__all__ = ["WEIGHTS", "Fingerprint", "fingerprint_of"]

Fact = float | str

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"hardware": 2.0, "engine": 1.0, "model": 2.0, "workload": 2.0, "promises": 1.0, "knobs": 1.0}
)
"""What differs counts by what the best config depends on: the machine, the model and the load most of all."""

UNLIKE = 4.0
"""Numbers that are this many times apart, or more, have nothing in common."""

_NOT_THE_LOAD = frozenset({"seed", "requests", "warmup_requests", "timeout_s"})
"""Of a workload: how long it is measured, not what it is."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Facts by name, in the groups of WEIGHTS."""

    groups: Mapping[str, Mapping[str, Fact]]

    def distance(self, other: Fingerprint) -> float:
        """0 for deployments alike in every fact, 1 for such as share none.

        The weighted mean over groups of the mean over a group's facts. Of two numbers the difference is
        |ln(a / b)| / ln(UNLIKE), at most 1; anything else is the same (0) or not (1), and so is a fact that one side
        lacks. A group that both lack isn't counted.
        """
        total = weight = 0.0
        for name, heft in WEIGHTS.items():
            mine, theirs = self.groups.get(name, {}), other.groups.get(name, {})
            facts = sorted(mine.keys() | theirs.keys())
            if facts:
                total += heft * fmean(_apart(mine.get(fact), theirs.get(fact)) for fact in facts)
                weight += heft
        return total / weight if weight else 0.0


def fingerprint_of(entries: Iterable[Entry]) -> Fingerprint:
    """What the first entries of a run's ledger say: `run.started` and `survey`.

    Raises:
        LookupError, TypeError, ValueError, OverflowError: the ledger has no such entries, or not in today's form.
    """
    first = {entry.kind: entry.data for entry in reversed(list(entries)) if entry.kind in ("run.started", "survey")}
    started, survey = first["run.started"], first["survey"]
    deployment, machine, roofline = started["deployment"], survey["hardware"], survey["roofline"]
    model = survey["physics"].get("model")  # unknown of an engine of which nothing is
    load = {name: value for name, value in deployment["workload"].items() if name not in _NOT_THE_LOAD}
    return Fingerprint(
        {
            "hardware": {
                "device": str(deployment["device"]),
                "cores": float(machine["cores"]),
                "memory_bytes": float(machine["memory_bytes"]),
                "gpus": float(len(machine["gpus"])),
                "gpu_memory_bytes": float(machine["gpu_memory_bytes"]),
                "read_bytes_per_s": float(roofline["read_bytes_per_s"]),
                "flops_per_s": float(max(roofline["flops_per_s_bf16"], roofline["flops_per_s_fp32"])),
            },
            "engine": {
                "target": _kind_of(deployment["target"]),
                **{f"package {name.split()[0]}": name.split()[-1] for name in machine["packages"]},
            },
            "model": {
                "digest": str(survey["model_digest"]),
                **(_cost(model) if model else {}),
            },
            "workload": dict(_flat(load)),
            "promises": {
                **dict(_flat(deployment["slo"])),
                "objective": str(deployment["objective"]["metric"]),
                "quality": str(deployment["quality"]),
            },
            "knobs": {knob["name"]: "tunable" for knob in started["knobs"] if knob["tunable"]},
        }
    )


def _cost(model: Mapping[str, Any]) -> dict[str, Fact]:
    return {
        "step_bytes": float(model["step_bytes"]),
        "token_parameters": float(model["token_parameters"]),
        "kv_bytes": float(model["kv_bytes"] * sum(layers for _, layers in model["kv_layers"])),
    }


def _kind_of(target: Any) -> str:
    """Records of before there were others hold the bare word."""
    return str(target["kind"]) if isinstance(target, Mapping) else str(target)


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Fact]]:
    """Numbers, words and lengths of lists at the leaves of `data`, by dotted path; what is null is absent."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _flat(value, f"{path}.{name}" if path else str(name))
    elif isinstance(data, bool | str):
        yield path, str(data)
    elif isinstance(data, int | float):
        yield path, float(data)
    elif isinstance(data, list):
        yield f"{path} (length)", float(len(data))


def _apart(mine: Fact | None, theirs: Fact | None) -> float:
    if mine == theirs:
        return 0.0
    if not isinstance(mine, float) or not isinstance(theirs, float) or min(mine, theirs) <= 0:
        return 1.0
    return min(1.0, abs(math.log(mine) - math.log(theirs)) / math.log(UNLIKE))
