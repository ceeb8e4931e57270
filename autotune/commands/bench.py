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
    from tools.measure.measurement import Measurement

__all__ = ["bench"]

_SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".parquet")

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
    input_tokens: Annotated[
        int | None, typer.Option("--input", min=9, help="Prompt length, about; in words. 256 by default.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output", min=1, help="Tokens to generate; 128 by default.")
    ] = None,
    shared_prefix: Annotated[
        int | None, typer.Option(min=0, help="Length of a system prompt that all share; 0 by default.")
    ] = None,
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
        Path | None,
        typer.Option(help="Raw records of each trial: .jsonl, .jsonl.gz or .parquet; .json: the whole measurement."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure a deployment, or any running server, and say how sure the numbers are.

    The first Ctrl-C stops sending and waits for what is in flight; a second one ends at once. Exit code 3: the numbers
    can't be used (see the doubts), or the budget can't resolve the effect.
    """
    import json

    from autotune.bench.show import show
    from autotune.console import run_progress

    written = _Written.asked(out, page)
    if price is not None and price <= 0:
        raise UserError(f"--price: expected a price per hour above 0, found {price:g}")
    how_many = _HowMany.asked(trials, resolve, budget)
    lengths = {"--input": input_tokens, "--output": output_tokens, "--shared-prefix": shared_prefix}
    arrivals = _arrivals(rate, burstiness, concurrency, burst)
    wanted = _Wanted(target, model, key_env, workload, requests, lengths, arrivals, slo or [], metric, workers)
    with run_progress() as progress:
        found = _measured(wanted, seed, how_many, price, floor, progress)
    if as_json:
        print(json.dumps(found.to_json()), flush=True)
    else:
        show(found)
    written.write(found)
    if found.interrupted:
        raise typer.Exit(130)
    if found.ended_early and found.valid and how_many.effect is None:
        raise typer.Exit(1)  # it was said with the numbers
    if not found.valid or found.ended_early or (found.plan is not None and not found.plan.feasible):
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


def _arrivals(
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


def _measured(
    wanted: _Wanted, seed: int | None, how_many: _HowMany, price: float | None, with_floor: bool, progress: RunProgress
) -> Bench:
    import tempfile

    from autotune.bench import Bench, Series
    from tools.measure.self_calibration import measure_floor

    with tempfile.TemporaryDirectory() as folder:
        subject, load, metric = wanted.found(Path(folder) / "server.log")
        if load.fixed is not None and (how_many.trials > 1 or how_many.effect is not None):
            raise UserError(
                "expected one trial of a workload that holds the very requests, found several: each trial needs "
                "requests of its own; give the spec that the file was made from"
            )
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
    return Bench(subject.name, metric, tuple(series.trials), found_floor, plan, price, series.ended_early)


@dataclass(frozen=True)
class _Wanted:
    """What the options name."""

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
        from dataclasses import replace

        from autotune.asked_load import AskedLoad, asked_load, judged_by
        from autotune.bench import DeploymentSubject, UrlSubject
        from autotune.endpoint import api_key, is_url, running_endpoint
        from autotune.promise import parse_promise
        from tools.deployment import load_deployment

        subject: Subject
        if is_url(self.target):
            load = asked_load(self.workload, self._flags())
            subject = UrlSubject(running_endpoint(self.target, self.model, api_key(self.key_env)), self.workers)
        else:
            if self.model is not None or self.key_env is not None:
                raise UserError("--model and --key-env go with a URL, found a deployment, which names its model itself")
            file = load_deployment(Path(self.target))
            own = file.deployment
            subject = DeploymentSubject(file, log, self.workers)
            if self.workload is not None:
                load = asked_load(self.workload, self._flags())
            else:
                load = AskedLoad(own.workload, own.slo, own.objective.metric)
        if self.workload is not None or not is_url(self.target):
            load = self._changed(load)
        if self.promise:
            load = replace(load, slo=parse_promise(self.promise))
        return subject, load, _known(self.metric) if self.metric is not None else judged_by(load)

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
    from tools.measure import METRICS

    if metric not in METRICS:
        raise UserError(f"--metric: expected a metric such as p95_ttft_ms or output_throughput, found {metric!r}")
    return metric


@dataclass(frozen=True)
class _Written:
    """The files that were asked for. Whether they can be written is found out before anything is measured."""

    out: Path | None
    page: Path | None

    @classmethod
    def asked(cls, out: Path | None, page: Path | None) -> _Written:
        from importlib.util import find_spec

        for path in (out, page):
            if path is not None and not path.absolute().parent.is_dir():
                raise UserError(f"{path}: expected a folder to write to, found none at {path.absolute().parent}")
            if path is not None and path.is_dir():
                raise UserError(f"{path}: expected the name of a file, found a folder")
        if out is not None and not out.name.endswith(_SUFFIXES):
            raise UserError(f"--out {out}: expected a name that ends in {', '.join(_SUFFIXES)}")
        if out is not None and out.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise UserError(
                f"--out {out}: writing Parquet needs pyarrow: install the extra `parquet`, or name a .jsonl.gz"
            )
        return cls(out, page)

    def write(self, found: Bench) -> None:
        """Each file whole or not at all; of several trials each its own: `name.1.jsonl`, `name.2.jsonl`."""
        from tools.whole_file import replaced

        if self.out is not None:
            several = len(found.trials) > 1
            for number, trial in enumerate(found.trials, start=1):
                _write_records(trial.measurement, _numbered(self.out, number) if several else self.out)
        if self.page is not None:
            from autotune.pages import bench_page

            with replaced(self.page) as file:
                file.write(bench_page(found.page_json(), found.shown.measurement).encode())


def _numbered(path: Path, number: int) -> Path:
    suffix = next(suffix for suffix in _SUFFIXES if path.name.endswith(suffix))
    return path.with_name(f"{path.name.removesuffix(suffix)}.{number}{suffix}")


def _write_records(measurement: Measurement, path: Path) -> None:
    import json

    from tools import formats
    from tools.whole_file import replaced

    if path.suffix == ".json":
        with replaced(path) as file:
            file.write(json.dumps(measurement.to_json()).encode())
        return
    reading = formats.reading_from_measurement(measurement, source=str(path))
    (formats.write_parquet if path.suffix == ".parquet" else formats.write_records)(reading, path)
