"""Scaled: the same workload for a smaller machine: shorter and rarer, alike in everything that is a ratio."""

from __future__ import annotations

from typing import Any

from tools.measure.workload import WorkloadSpec

__all__ = ["scaled"]

_LEAST_WORDS = 9
"What a prompt needs at least to be told from every other (see `prose`)."


def scaled(spec: WorkloadSpec, factor: float) -> WorkloadSpec:
    """`spec` with lengths and rate times `factor`; turns, pauses, sharing and burstiness stay.

    A length below what a prompt needs to be its own is that least instead. Users of a closed loop are as many as before
    times the factor, at least one.

    Raises:
        ValueError: a factor that isn't above 0.
    """
    if not factor > 0:
        raise ValueError(f"expected a scale above 0, found {factor:g}")
    data = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for name, least in (("prompt_tokens", _LEAST_WORDS), ("output_tokens", 1)):
        if name in data:
            data[name] = _length(data[name], factor, least)
    if data.get("system_prompt_tokens"):
        data["system_prompt_tokens"] = max(round(data["system_prompt_tokens"] * factor), _LEAST_WORDS)
    if "shapes" in data:
        _shapes(data["shapes"], factor)
    arrivals = data["arrivals"]
    for name in ("rate_rps", "from_rps", "to_rps"):
        if name in arrivals:
            arrivals[name] *= factor
    if "times_s" in arrivals:
        arrivals["speed"] = arrivals.get("speed", 1.0) * factor
    if "concurrency" in arrivals:
        arrivals["concurrency"] = max(round(arrivals["concurrency"] * factor), 1)
    return WorkloadSpec.model_validate(data)


def _length(length: dict[str, Any] | int, factor: float, least: int) -> dict[str, Any]:
    whole = {"min": length, "max": length} if isinstance(length, int) else dict(length)
    found: dict[str, Any] = {name: max(round(whole[name] * factor), least) for name in ("min", "max")}
    if whole.get("mean") is not None:
        found["mean"] = min(max(whole["mean"] * factor, found["min"]), found["max"])
        found["std"] = whole["std"] * factor
    return found


def _shapes(shapes: dict[str, Any], factor: float) -> None:
    def length(tokens: int) -> int:
        return max(round(tokens * factor), 1)

    for node in shapes.get("prefixes", []):
        node["tokens"] = length(node["tokens"])
    for shape in shapes["conversations"]:
        shape["turns"] = [[length(new), length(output), gap] for new, output, gap in shape["turns"]]
