"""The bench command behind its parsing: which workload, which server, and how the result is shown."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.table import Table

from autotune.bench import Bench, bench_deployment, bench_url
from autotune.console import out, run_progress
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.measure import Slo, WorkloadSpec

__all__ = ["arrivals_of", "run_bench"]

_SHOWN = ("ttft", "tpot", "itl", "e2el")


def arrivals_of(rate: float | None, concurrency: int | None, burst: bool) -> dict[str, Any]:
    """The arrivals that the flags ask for; a closed loop of 8 users by default.

    Raises:
        UserError: more than one kind was asked for.
    """
    asked: list[dict[str, Any]] = []
    if rate is not None:
        asked.append({"kind": "poisson", "rate_rps": rate})
    if concurrency is not None:
        asked.append({"kind": "closed", "concurrency": concurrency})
    if burst:
        asked.append({"kind": "burst"})
    if len(asked) > 1:
        raise UserError("expected one of --rate, --concurrency and --burst, found several; keep one")
    return asked[0] if asked else {"kind": "closed", "concurrency": 8}


def run_bench(
    target: str,
    model: str | None,
    workload: Path | None,
    flags: Mapping[str, Any],
    seed: int | None,
    key_env: str | None,
    raw: Path | None,
    as_json: bool,
) -> None:
    """Measure, print, and write the raw measurement where asked."""
    with run_progress() as progress:
        progress.phase("bench", target, None)
        if "://" in target:
            spec, slo = _workload(workload, flags)
            api_key = _key(key_env)
            chosen = spec.seed if seed is None else seed
            found = bench_url(target, model, spec, slo, seed=chosen, api_key=api_key, on_progress=progress.requests)
        else:
            with tempfile.TemporaryDirectory() as folder:
                found = bench_deployment(Path(target), seed, Path(folder) / "server.log", progress.requests)
    if raw is not None:
        raw.write_text(json.dumps(found.measurement.to_json()))
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _show(found)


def _workload(path: Path | None, flags: Mapping[str, Any]) -> tuple[WorkloadSpec, Slo]:
    try:
        if path is None:
            return WorkloadSpec.model_validate(flags), Slo()
        data = YamlFile.read(path).data
        if not isinstance(data, dict) or "workload" not in data:
            raise UserError(f"{path}: expected a workload: section, found none")
        return WorkloadSpec.model_validate(data["workload"]), Slo.model_validate(data.get("slo", {}))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise UserError(f"{path or 'the workload flags'}: not a valid workload: {problems}") from None


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if variable not in os.environ:
        raise UserError(f"--key-env: expected the variable {variable} to hold the key, found it unset")
    return os.environ[variable]


def _show(found: Bench) -> None:
    table = Table("", "mean", "p50", "p90", "p95", "p99", title_justify="left")
    table.title = f"{found.target}: {found.measurement.completed} of {found.measurement.offered} requests answered"
    for family in _SHOWN:
        cells = [found.summary.get(f"{name}_{family}_ms") for name in ("mean", "p50", "p90", "p95", "p99")]
        table.add_row(f"{family} ms", *("-" if cell is None else f"{cell:.1f}" for cell in cells))
    out.print(table)
    for name in (
        "request_throughput",
        "output_throughput",
        "total_token_throughput",
        "request_goodput",
        "prefix_hit_rate",
    ):
        if name in found.summary:
            out.print(f"{name}: {found.summary[name]:.3f}")
    interval = found.intervals.get("p95_ttft_ms")
    if interval:
        out.print(f"p95_ttft_ms 95 % interval within this load: {interval.low:.1f} to {interval.high:.1f}")
    client = found.measurement.client
    out.print(f"client: send lag p99 {client.send_lag_p99_ms:.2f} ms, {client.cpu_share:.0%} of a core")
    for error in sorted({record.error for record in found.measurement.records if record.error})[:5]:
        out.print(f"error: {error}", markup=False)
