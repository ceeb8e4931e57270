"""Writing the llm-d benchmark report, version 0.2.1, checked against its own schema (package llmd-benchmark-report).

A statistic there has a mean or isn't there. Latencies are ours: `time_to_first_token` and `request_latency` count from
when a request was due, and requests that failed count in their percentiles as longer than any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from tools.canonical import digest
from tools.formats.reading import Reading
from tools.measure.measurement import Measurement

__all__ = ["llmd_json", "llmd_yaml"]

_LATENCIES = {
    "time_to_first_token": ("ttft", "ms"),
    "time_per_output_token": ("tpot", "ms/token"),
    "inter_token_latency": ("itl", "ms/token"),
    "request_latency": ("e2el", "ms"),
}
_RATES = {
    "output_token_rate": ("output_throughput", "tokens/s"),
    "total_token_rate": ("total_token_throughput", "tokens/s"),
    "request_rate": ("request_throughput", "queries/s"),
}


def llmd_json(
    reading: Reading,
    *,
    description: str | None = None,
    rate_qps: float | None = None,
    concurrency: int | None = None,
) -> dict[str, Any]:
    """The report as plain JSON values.

    With the requests of `reading` it holds our numbers; of a file that has only aggregates it holds those, under the
    definitions of the tool that made them, which `run.description` names.

    Raises:
        pydantic.ValidationError: a number that the schema doesn't allow.
    """
    from llmd_benchmark_report.schema_v0_2 import BenchmarkReportV02

    found = reading.ours() or (reading.theirs.metrics if reading.theirs else {})
    measurement = reading.measurement
    report: dict[str, Any] = {
        "version": "0.2.1",
        "run": _run(reading, found, description),
        "results": {"request_performance": {"aggregate": _aggregate(measurement, found)}},
    }
    scenario = {"stack": _stack(measurement), "load": _load(reading, rate_qps, concurrency)}
    if any(scenario.values()):
        report["scenario"] = scenario
    checked: dict[str, Any] = BenchmarkReportV02.model_validate(report).dump()
    return checked


def llmd_yaml(report: Mapping[str, Any]) -> str:
    """The report of `llmd_json` as YAML, keys in the schema's order."""
    return yaml.safe_dump(dict(report), sort_keys=False, allow_unicode=True)


def _run(reading: Reading, found: Mapping[str, float], description: str | None) -> dict[str, Any]:
    started_at = reading.measurement.started_at if reading.measurement is not None else math.nan
    duration_s = found.get("duration")
    time: dict[str, Any] = {}
    if not math.isnan(started_at):
        time["start"] = datetime.fromtimestamp(started_at, UTC).isoformat()
        if duration_s is not None:
            time["end"] = datetime.fromtimestamp(started_at + duration_s, UTC).isoformat()
    if duration_s is not None:
        time["duration"] = f"PT{duration_s:.6f}S"
    by = f"{reading.tool} {reading.version}".strip()
    definitions = "autotune's" if reading.measurement is not None else f"{reading.tool}'s"
    return {
        "uid": digest({"source": reading.source, "tool": reading.tool, "started_at": str(started_at), **found}),
        "time": time or None,
        "description": description or f"measured by {by}; latencies have {definitions} definitions",
    }


def _aggregate(measurement: Measurement | None, found: Mapping[str, float]) -> dict[str, Any]:
    completed, failed = int(found.get("completed", 0)), int(found.get("failed", 0))
    timed_out = int(found.get("timed_out", 0))
    total = measurement.offered if measurement is not None else completed + failed + timed_out
    requests: dict[str, Any] = {"total": total, "failures": failed, "incomplete": timed_out}
    if measurement is not None:
        ok = [record for record in measurement.records if record.outcome == "ok"]
        requests["input_length"] = _length([r.prompt_tokens for r in ok if r.prompt_tokens is not None])
        requests["output_length"] = _length([r.output_tokens for r in ok if r.output_tokens is not None])
    latency = {theirs: _statistic(found, ours, units) for theirs, (ours, units) in _LATENCIES.items()}
    throughput = {
        theirs: {"units": units, "mean": found[ours]} for theirs, (ours, units) in _RATES.items() if ours in found
    }
    return {"requests": requests, "latency": latency, "throughput": throughput}


def _statistic(found: Mapping[str, float], family: str, units: str) -> dict[str, Any] | None:
    if f"mean_{family}_ms" not in found:
        return None
    names = {"mean": "mean", "stddev": "std", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
    if f"p50_{family}_ms" not in found:
        names["p50"] = "median"
    return {"units": units} | {
        theirs: found[f"{ours}_{family}_ms"] for theirs, ours in names.items() if f"{ours}_{family}_ms" in found
    }


def _length(tokens: list[int]) -> dict[str, Any] | None:
    if not tokens:
        return None
    return {"units": "count", "mean": sum(tokens) / len(tokens), "min": min(tokens), "max": max(tokens)}


def _stack(measurement: Measurement | None) -> list[dict[str, Any]] | None:
    """The engine as it named itself; generic, since the schema's own kind asks for accelerators that nobody told."""
    identity = (measurement.identity_after or measurement.identity_before) if measurement is not None else None
    if identity is None:
        return None
    name, _, version = identity.engine.partition(" ")
    engine = {"kind": "generic", "tool": name, "tool_version": version or "unknown", "model": identity.model}
    return [
        {
            "metadata": {"label": "engine", "cfg_id": identity.config_digest},
            "standardized": engine,
            "native": {"config": dict(identity.config)},
        }
    ]


def _load(reading: Reading, rate_qps: float | None, concurrency: int | None) -> dict[str, Any] | None:
    """The schema asks for the input's length: without requests there is no load to describe."""
    measurement = reading.measurement
    if measurement is None:
        return None
    prompts = [record.prompt_tokens for record in measurement.records if record.prompt_tokens is not None]
    outputs = [record.output_tokens for record in measurement.records if record.output_tokens is not None]
    if not prompts:
        return None
    return {
        "metadata": {"cfg_id": measurement.spec_digest or None},
        "standardized": {
            "tool": reading.tool,
            "tool_version": reading.version or "unknown",
            "source": "random" if reading.tool == "autotune" else "unknown",
            "input_seq_len": _sequence_length(prompts),
            "output_seq_len": _sequence_length(outputs) if outputs else None,
            "rate_qps": rate_qps,
            "concurrency": concurrency,
        },
        "native": {"args": None},
    }


def _sequence_length(tokens: list[int]) -> dict[str, Any]:
    fixed = min(tokens) == max(tokens)
    return {
        "distribution": "fixed" if fixed else "other",
        "value": sum(tokens) / len(tokens),
        "min": min(tokens),
        "max": max(max(tokens), 1),
    }
