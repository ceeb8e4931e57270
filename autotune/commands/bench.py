"""`autotune bench`: measure a deployment, or any running server, and say how sure the numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.errors import UserError

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

    from autotune.bench import Files, HowMany, Wanted, asked_arrivals, run_bench, show
    from autotune.console import run_progress

    files = Files.asked(out, page)
    if price is not None and price <= 0:
        raise UserError(f"--price: expected a price per hour above 0, found {price:g}")
    how_many = HowMany.asked(trials, resolve, budget)
    lengths = {"--input": input_tokens, "--output": output_tokens, "--shared-prefix": shared_prefix}
    arrivals = asked_arrivals(rate, burstiness, concurrency, burst)
    wanted = Wanted(target, model, key_env, workload, requests, lengths, arrivals, slo or [], metric, workers)
    with run_progress() as progress:
        found = run_bench(wanted, seed, how_many, price, floor, progress)
    if as_json:
        print(json.dumps(found.to_json()), flush=True)
    else:
        show(found)
    files.write(found)
    if found.interrupted:
        raise typer.Exit(130)
    if found.ended_early and found.valid and how_many.effect is None:
        raise typer.Exit(1)  # it was said with the numbers
    if not found.valid or found.ended_early or (found.plan is not None and not found.plan.feasible):
        raise typer.Exit(INVALID)
