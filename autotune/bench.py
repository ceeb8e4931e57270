"""Bench: one load on one server, measured and summarised; nothing is tuned and nothing is judged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tools.deployment import load_deployment
from tools.errors import UserError
from tools.measure import Interval, Measurement, Slo, WorkloadSpec, materialise, summarise, summary_intervals
from tools.measure.client import drive, warm_up
from tools.measure.progress import ProgressCallback
from tools.targets.target import Endpoint

__all__ = ["Bench", "bench_deployment", "bench_url"]


@dataclass(frozen=True)
class Bench:
    """A measurement with its flat summary and the 95 % intervals within this one load."""

    target: str
    measurement: Measurement
    summary: Mapping[str, float]
    intervals: Mapping[str, Interval]
    slo: Mapping[str, float]

    @classmethod
    def of(cls, target: str, measurement: Measurement, slo: Slo) -> Bench:
        return cls(target, measurement, summarise(measurement, slo), summary_intervals(measurement, slo), slo.bounds())

    def to_json(self) -> dict[str, Any]:
        """vLLM's flat JSON, plus intervals, identity and the client's own health."""
        m = self.measurement
        return {
            **self.summary,
            "target": self.target,
            "intervals": {name: [i.low, i.high] for name, i in self.intervals.items()},
            "slo": dict(self.slo),
            "workload_digest": m.workload_digest,
            "seed": m.seed,
            "extras": list(m.extras),
            "client": m.client.to_json(),
            "errors": sorted({record.error for record in m.records if record.error}),
        }


def bench_deployment(path: Path, seed: int | None, log: Path, on_progress: ProgressCallback | None) -> Bench:
    """Launch the deployment at `path` as it stands, load it once, stop it.

    Raises:
        UserError: bad input, or the server doesn't run.
    """
    from autotune.harness.prepare import target_for
    from tools.trial import run_trial

    file = load_deployment(path)
    deployment = file.deployment
    target = target_for(deployment, path)
    result = run_trial(
        target,
        target.knobs.resolve(deployment.config),
        deployment.workload,
        deployment.workload.seed if seed is None else seed,
        log=log,
        ready_timeout_s=deployment.ready_timeout_s,
        on_progress=on_progress,
    )
    if result.measurement is None:
        assert result.failure is not None
        raise UserError(f"{path}: the server doesn't run ({result.failure.kind}): {result.failure.message}; see {log}")
    return Bench.of(deployment.name, result.measurement, deployment.slo)


def bench_url(
    url: str,
    model: str | None,
    spec: WorkloadSpec,
    slo: Slo,
    *,
    seed: int,
    api_key: str | None,
    on_progress: ProgressCallback | None,
) -> Bench:
    """Load any OpenAI-compatible server that is already running.

    Raises:
        UserError: nothing answers there, or it serves no or several models and none was named.
    """
    base_url = url.rstrip("/").removesuffix("/v1")
    endpoint = Endpoint(base_url, model or _only_model(base_url, api_key), api_key=api_key)
    workload = materialise(spec, seed)
    dialect = warm_up(endpoint, workload)
    load = drive(endpoint, workload, dialect=dialect, on_progress=on_progress)
    measurement = Measurement.of(workload, load, config_digest="")
    if not measurement.completed:
        raise UserError(
            f"{base_url}: none of {measurement.offered} requests was answered; the first: {load.records[0].error}"
        )
    return Bench.of(base_url, measurement, slo)


def _only_model(base_url: str, api_key: str | None) -> str:
    import asyncio

    async def ask() -> Any:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = aiohttp.ClientTimeout(total=10)
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.get(f"{base_url}/v1/models") as answer,
        ):
            answer.raise_for_status()
            return await answer.json(content_type=None)

    started = time.monotonic()
    try:
        names = [row["id"] for row in asyncio.run(ask())["data"]]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        waited = time.monotonic() - started
        raise UserError(
            f"{base_url}/v1/models: expected a list of models, found {type(error).__name__}: {error} "
            f"after {waited:.1f} s. Is the server up, is the URL right? Without such a list give --model"
        ) from None
    if len(names) != 1:
        raise UserError(f"{base_url} serves {len(names)} models ({', '.join(names[:5])}); choose one with --model")
    return str(names[0])
