"""`autotune bench`: measure a deployment, or any running server, and say how sure the numbers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from autotune.asked_load import AskedLoad
    from autotune.bench import Bench, Subject
    from autotune.console import RunProgress

__all__ = ["bench"]

INVALID = 3
"""Exit code: measured, but the numbers can't be used, or can't tell what was asked."""


def bench(
    target: Annotated[str, typer.Argument(help="A deployment.yaml, or the URL of a running OpenAI-compatible server.")],
    model: Annotated[str | None, typer.Option(help="Model to ask for; the only one served by default.")] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="A preset (see `workload presets`), YAML with workload: (and slo:), or requests.jsonl."),
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="How many; 64 by default, or as many as --workload says.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Poisson arrivals, requests per second.")] = None,
    burstiness: Annotated[
        float | None, typer.Option(help="With --rate: coefficient of variation of the gaps; 1 is Poisson.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Closed loop with that many users.")] = None,
    burst: Annotated[bool, typer.Option("--burst", help="All at once.")] = False,
    input_tokens: Annotated[int, typer.Option("--input", min=9, help="Prompt length, about; in words.")] = 256,
    output_tokens: Annotated[int, typer.Option("--output", min=1, help="Tokens to generate.")] = 128,
    shared_prefix: Annotated[int, typer.Option(min=0, help="Length of a system prompt that all share.")] = 0,
    slo: Annotated[
        list[str] | None,
        typer.Option(help='A promise, e.g. "ttft_ms.p95=500"; repeat for more. Replaces slo: of YAML.'),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What it is judged by; by the workload's class by default.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Loads with seeds of their own; of a deployment, launches.")
    ] = None,
    resolve: Annotated[
        str | None, typer.Option(help="Run as many trials as it takes to see an effect of this size: 5%.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Most wall clock for --resolve: 90s, 10m.")] = None,
    price: Annotated[
        float | None, typer.Option(help="Of the hardware per hour: tells tokens per currency unit.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that send the load.")] = 1,
    floor: Annotated[bool, typer.Option(help="First measure the client itself (about 3 s).")] = True,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the requests.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that holds the server's API key.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Raw records: .jsonl, .jsonl.gz, .parquet; .json: the whole measurement.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure a deployment, or any running server, and say how sure the numbers are.

    Ctrl-C stops sending and waits for what is in flight; a second one ends at once. Exit code 3: the numbers can't be
    used (see the doubts), or the budget can't resolve the effect.
    """
    import json

    from autotune.bench.show import show
    from autotune.console import run_progress

    for path in (out, page):
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"{path}: expected a folder to write to, found none at {path.absolute().parent}")
    lengths = {"prompt_tokens": input_tokens, "output_tokens": output_tokens, "system_prompt_tokens": shared_prefix}
    flags = {"requests": requests or 64, "arrivals": _arrivals(rate, burstiness, concurrency, burst), **lengths}
    how_many = _HowMany.asked(trials, resolve, budget)
    if price is not None and price <= 0:
        raise UserError(f"--price: expected a price per hour above 0, found {price:g}")
    with run_progress() as progress:
        found = _measured(
            _Wanted(target, model, key_env, workload, requests, flags, slo or [], metric, workers),
            seed,
            how_many,
            price,
            floor,
            progress,
        )
    _write(found, out, page)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show(found)
    if found.interrupted:
        raise typer.Exit(130)
    if not found.valid or (found.plan is not None and not found.plan.feasible):
        raise typer.Exit(INVALID)


class _HowMany:
    """How many trials: a number, or what resolves an effect."""

    def __init__(self, trials: int, effect: float | None, budget_s: float | None) -> None:
        self.trials, self.effect, self.budget_s = trials, effect, budget_s

    @classmethod
    def asked(cls, trials: int | None, resolve: str | None, budget: str | None) -> _HowMany:
        from autotune.duration import parse_seconds

        if resolve is None:
            if budget is not None:
                raise UserError(
                    "--budget goes with --resolve, found no --resolve; give the number of trials with --trials"
                )
            return cls(trials or 1, None, None)
        if trials is not None:
            raise UserError(
                "expected one of --trials and --resolve, found both; --resolve chooses the number of trials"
            )
        return cls(1, _share(resolve), None if budget is None else parse_seconds("--budget", budget))


def _share(text: str) -> float:
    """`5%` or `0.05`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UserError(f"--resolve: expected a share such as 5% or 0.05, found {text!r}")
    return value


def _arrivals(rate: float | None, burstiness: float | None, concurrency: int | None, burst: bool) -> dict[str, Any]:
    """The arrivals that the flags ask for; a closed loop of 8 users by default.

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
    return asked[0] if asked else {"kind": "closed", "concurrency": 8}


def _measured(
    wanted: _Wanted, seed: int | None, how_many: _HowMany, price: float | None, with_floor: bool, progress: RunProgress
) -> Bench:
    import tempfile

    from autotune.bench import Bench, Series
    from tools.measure.self_calibration import measure_floor

    with tempfile.TemporaryDirectory() as folder:
        subject, load, metric = wanted.found(Path(folder) / "server.log")
        found_floor = None
        if with_floor:
            progress.phase("self-calibration", "the client against a mock server", 3.0)
            found_floor = measure_floor(wanted.workers)
            progress.note(f"client's floor: {found_floor}")
        series = Series(subject, load, metric, seed, found_floor, progress.phase, progress.note, progress.requests)
        plan = None
        if how_many.effect is None:
            series.run(how_many.trials)
        else:
            plan = series.resolve(how_many.effect, how_many.budget_s)
    return Bench(subject.name, metric, tuple(series.trials), found_floor, plan, price)


@dataclass(frozen=True)
class _Wanted:
    """What the options name."""

    target: str
    model: str | None
    key_env: str | None
    workload: str | None
    requests: int | None
    flags: Mapping[str, Any]
    promise: list[str]
    metric: str | None
    workers: int

    def found(self, log: Path) -> tuple[Subject, AskedLoad, str]:
        """What to measure, what to send it, and what it is judged by.

        Raises:
            UserError: no such thing.
        """
        from dataclasses import replace

        from autotune.asked_load import AskedLoad, asked_load, judged_by
        from autotune.bench import DeploymentSubject, UrlSubject
        from autotune.endpoint import api_key, is_url, running_endpoint
        from autotune.promise import parse_promise
        from tools.deployment import load_deployment

        subject: Subject
        judged = None
        if is_url(self.target):
            load = asked_load(self.workload, self.flags)
            endpoint = running_endpoint(self.target, self.model, api_key(self.key_env))
            subject = UrlSubject(endpoint, self.workers)
        else:
            file = load_deployment(Path(self.target))
            own = file.deployment
            subject = DeploymentSubject(file, log, self.workers)
            if self.workload is None:
                load, judged = AskedLoad(own.workload, own.slo), own.objective.metric
            else:
                load = asked_load(self.workload, self.flags)
        if self.requests is not None:
            load = load.of(self.requests)
        if self.promise:
            load = replace(load, slo=parse_promise(self.promise))
        return subject, load, _known(self.metric) if self.metric is not None else judged or judged_by(load.spec)


def _known(metric: str) -> str:
    from tools.measure import METRICS

    if metric not in METRICS:
        raise UserError(f"--metric: expected a metric such as p95_ttft_ms or output_throughput, found {metric!r}")
    return metric


def _write(found: Bench, out: Path | None, page: Path | None) -> None:
    """Write what was asked for, each file whole or not at all."""
    import json

    from tools.formats.records_file import replaced

    shown = found.shown.measurement
    if out is not None:
        if out.name.endswith((".jsonl", ".jsonl.gz", ".parquet")):
            from tools import formats

            reading = formats.reading_from_measurement(shown, source=str(out))
            (formats.write_parquet if out.suffix == ".parquet" else formats.write_records)(reading, out)
        else:
            with replaced(out) as file:
                file.write(json.dumps(shown.to_json()).encode())
    if page is not None:
        from autotune.pages import bench_page

        with replaced(page) as file:
            file.write(bench_page(found.page_json(), shown).encode())
