"""`autotune capacity`: from traffic, a promise and measured service curves to replicas, cost and autoscaling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from tools.capacity import Choice, Hardware, Measured, Mix

__all__ = ["capacity"]

Name = TypeVar("Name", bound=str)


def capacity(
    traffic: Annotated[
        Path,
        typer.Option(help="CSV with time and rate_rps, time and count, or one row a request; or a workload's YAML."),
    ],
    slo: Annotated[list[str], typer.Option(help='A promise, e.g. "ttft_ms.p95=500"; repeat for more.')],
    curve: Annotated[
        list[Path] | None, typer.Option(help="A calibration (autotune calibrate --out) or a service curve; repeat.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="Price list (see configs/prices.example.yaml).")] = None,
    workload: Annotated[
        Path | None, typer.Option(help="YAML of the requests' lengths, instead of the traffic's or the curve's own.")
    ] = None,
    interval: Annotated[str, typer.Option(help="Length of the parts of the day that are planned one by one.")] = "1h",
    percentile: Annotated[
        float, typer.Option(min=0, max=100, help="Of the rates seen at one time of day, the one to plan for.")
    ] = 95.0,
    growth: Annotated[float, typer.Option(min=0.001, help="Multiplies all traffic: 1.3 is 30 % more.")] = 1.0,
    burstiness: Annotated[
        float | None, typer.Option(min=0, max=20, help="Coefficient of variation of the gaps between requests.")
    ] = None,
    balancer: Annotated[
        str, typer.Option(help="least-outstanding, power-of-two or round-robin.")
    ] = "least-outstanding",
    chunk_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of one engine step, where the curve doesn't tell.")
    ] = None,
    mttf: Annotated[
        str | None, typer.Option(help="Mean time to failure of a replica, e.g. 500h; none by default.")
    ] = None,
    repair: Annotated[str, typer.Option(help="To notice a failure and find a new place; the cold start adds.")] = "5m",
    cold_start: Annotated[str, typer.Option(help="From the decision until a replica takes requests.")] = "90s",
    zones: Annotated[int, typer.Option(min=1, help="Failure domains; with 2 or more the loss of one is borne.")] = 1,
    availability: Annotated[
        float, typer.Option(min=0.5, max=0.999999, help="Share of time with enough replicas up.")
    ] = 0.999,
    missing: Annotated[int, typer.Option(min=0, max=50, help="Degraded mode: up to so many too few.")] = 3,
    metrics: Annotated[str, typer.Option(help="Whose metric names the manifests use: engine or vllm.")] = "engine",
    deployment: Annotated[str, typer.Option(help="Name of the Kubernetes Deployment.")] = "inference",
    namespace: Annotated[str, typer.Option(help="Its namespace.")] = "default",
    prometheus: Annotated[str, typer.Option(help="Prometheus' address in the cluster.")] = (
        "http://prometheus.monitoring:9090"
    ),
    requests: Annotated[
        int, typer.Option(min=1000, help="Most simulated for one fleet at one rate: fewer is quicker and less sure.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for plan.json, plan.html and the manifests.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Plan a fleet: replicas over the day, spares for failures, degraded mode, cost, autoscaling."""
    import json
    from dataclasses import replace

    from autotune.capacity_report import show, write
    from autotune.console import run_progress
    from autotune.duration import parse_seconds
    from autotune.promise import parse_promise
    from tools.capacity import METRIC_NAMES, Effort, Terms, Workplace, make_plan, read_traffic

    terms = Terms(
        slo=parse_promise(slo),
        cold_start_s=parse_seconds("--cold-start", cold_start, zero=True),
        mttf_s=parse_seconds("--mttf", mttf) if mttf is not None else None,
        repair_s=parse_seconds("--repair", repair, zero=True),
        zones=zones,
        availability=availability,
        degraded=missing,
        effort=Effort(requests=min(12_000, requests), most_requests=requests, seed=seed),
    )
    place = Workplace.checked(deployment, namespace, prometheus, _one_of("--metrics", metrics, METRIC_NAMES))
    interval_s = parse_seconds("--interval", interval)
    day = read_traffic(traffic, interval_s=interval_s, percentile=percentile, growth=growth)
    if burstiness is not None:
        day = replace(day, cv=burstiness)
    mix = _mix(workload, traffic, day.lengths)
    choices, currency = _choices(curve or [], prices, balancer, chunk_tokens, mix)
    with run_progress() as progress:
        plan = make_plan(choices, day, terms, currency, lambda what, on: progress.phase(what, on, None))
    if out is not None:
        write(plan, place, out)
    if as_json:
        print(json.dumps(plan.to_json()))
    else:
        show(plan)
        if out is not None:
            print(f"plan, page and manifests: {out}")


def _mix(workload: Path | None, traffic: Path, lengths: Mix | None) -> Mix | None:
    """The requests' lengths: what was asked for, else the traffic's own; None leaves each curve its own."""
    from tools.capacity import Mix
    from tools.traces.spec_file import read_spec

    if workload is not None:
        return Mix.of_workload(read_spec(workload).spec)
    if traffic.suffix in (".yaml", ".yml"):
        return Mix.of_workload(read_spec(traffic).spec)
    return lengths


def _choices(
    curves: list[Path], prices: Path | None, balancer: str, chunk_tokens: int | None, mix: Mix | None
) -> tuple[list[Choice], str | None]:
    """Every replica that is offered: those of the price list, and curves that it doesn't name."""
    from tools.capacity import BALANCERS, Choice, FleetModel, read_prices, read_replica

    name = _one_of("--balancer", balancer, BALANCERS)
    listed = read_prices(prices) if prices is not None else None
    read = {}
    for path in curves:
        measured = read_replica(path, chunk_tokens)
        label = measured.replica.curve.name
        if label in read:
            raise UserError(f"--curve: expected curves of different names, found two of {label!r}")
        read[label] = measured

    def choice(label: str, measured: Measured, hardware: Hardware | None = None) -> Choice:
        model = FleetModel(measured.replica, name, measured.corrections)
        return Choice(label, model, mix or measured.mix, hardware)

    choices = []
    for hardware in listed.hardware if listed else ():
        if hardware.curve is not None:
            measured = read_replica(hardware.curve, chunk_tokens)
        elif hardware.name in read:
            measured = read.pop(hardware.name)
        else:
            found = ", ".join(sorted(read)) or "none"
            raise UserError(
                f"{prices}: {hardware.name} has no curve: and no --curve of that name was given (found: {found})"
            )
        choices.append(choice(hardware.name, measured, hardware))
    choices += [choice(label, measured) for label, measured in read.items()]
    if not choices:
        raise UserError(
            "expected at least one service curve, found none; measure one with `autotune calibrate TARGET --out "
            "curve.json` and give --curve curve.json, or --prices with a curve: for each hardware"
        )
    return choices, listed.currency if listed else None


def _one_of(option: str, text: str, allowed: Sequence[Name]) -> Name:
    for name in allowed:
        if text == name:
            return name
    raise UserError(f"{option}: expected {', '.join(allowed)}, found {text!r}")
