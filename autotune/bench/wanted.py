"""Wanted: what the options of `bench` name, found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.asked_load import AskedLoad, asked_load, judged_by
from autotune.bench.subject import ServedSubject, Subject
from autotune.endpoint import as_deployed, at_url, is_url
from autotune.promise import parse_promise
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.measure import METRICS

__all__ = ["Wanted", "asked_arrivals"]


@dataclass(frozen=True)
class Wanted:
    """The options that say what to measure, what to send it and what it is judged by."""

    target: str
    model: str | None
    key_env: str | None
    workload: str | None
    requests: int | None
    lengths: Mapping[str, int | None]
    arrivals: Mapping[str, Any] | None
    promise: list[str]
    metric: str | None
    workers: int

    def found(self, log: Path) -> tuple[Subject, AskedLoad, str]:
        """What to measure, what to send it, and what it is judged by.

        Raises:
            UserError: no such thing, or options that contradict each other.
        """
        if is_url(self.target):
            load = asked_load(self.workload, self._flags())
            served = at_url(self.target, self.model, self.key_env)
        else:
            if self.model is not None or self.key_env is not None:
                raise UserError("--model and --key-env go with a URL, found a deployment, which names its model itself")
            file = load_deployment(Path(self.target))
            own = file.deployment
            served = as_deployed(file)
            if self.workload is not None:
                load = asked_load(self.workload, self._flags())
            else:
                load = AskedLoad(own.workload, own.slo, own.objective.metric)
        if self.workload is not None or not is_url(self.target):
            load = self._changed(load)
        if self.promise:
            load = replace(load, slo=parse_promise(self.promise))
        metric = _known(self.metric) if self.metric is not None else judged_by(load)
        return ServedSubject(served, log, self.workers), load, metric

    def _flags(self) -> dict[str, Any]:
        """The workload that the options alone describe."""
        lengths = {name: value for name, value in self.lengths.items() if value is not None}
        return {
            "requests": self.requests or 64,
            "arrivals": self.arrivals or {"kind": "closed", "concurrency": 8},
            "prompt_tokens": lengths.get("--input", 256),
            "output_tokens": lengths.get("--output", 128),
            "system_prompt_tokens": lengths.get("--shared-prefix", 0),
        }

    def _changed(self, load: AskedLoad) -> AskedLoad:
        """A workload that was described elsewhere, with as many requests and the arrivals that were asked for."""
        if given := [name for name, value in self.lengths.items() if value is not None]:
            raise UserError(
                f"{', '.join(given)}: expected lengths from one place, and the workload has its own; leave the option "
                "out, or write a workload as you want it"
            )
        if self.requests is not None:
            load = load.of(self.requests)
        return load if self.arrivals is None else load.arriving(self.arrivals)


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise UserError(f"--metric: expected a metric such as p95_ttft_ms or output_throughput, found {metric!r}")
    return metric


def asked_arrivals(
    rate: float | None, burstiness: float | None, concurrency: int | None, burst: bool
) -> dict[str, Any] | None:
    """The arrivals that the flags ask for; None where they ask for none.

    Raises:
        UserError: more than one kind was asked for.
    """
    asked: list[dict[str, Any]] = []
    if rate is not None:
        asked.append({"kind": "poisson", "rate_rps": rate})
        if burstiness is not None:
            asked = [{"kind": "gamma", "rate_rps": rate, "cv": burstiness}]
    elif burstiness is not None:
        raise UserError("--burstiness goes with --rate, found no --rate; give the requests per second")
    if concurrency is not None:
        asked.append({"kind": "closed", "concurrency": concurrency})
    if burst:
        asked.append({"kind": "burst"})
    if len(asked) > 1:
        raise UserError("expected one of --rate, --concurrency and --burst, found several; keep one")
    return asked[0] if asked else None
