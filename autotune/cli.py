"""The command line: parse, one call, one exit. Anything longer belongs to a room."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from autotune import __version__
from autotune.commands.approve import approve
from autotune.commands.bench import bench
from autotune.commands.calibrate import calibrate
from autotune.commands.capacity import capacity
from autotune.commands.compare import compare
from autotune.commands.convert import convert
from autotune.commands.doctor import doctor
from autotune.commands.eval import eval_group
from autotune.commands.gauntlet import gauntlet
from autotune.commands.import_ import import_
from autotune.commands.playbook import playbook_group
from autotune.commands.reproduce import reproduce
from autotune.commands.workload import workload
from tools.errors import UserError

if TYPE_CHECKING:
    from autotune.harness import Options, Outcome
    from autotune.harness.prepare import LlmOptions

app = typer.Typer(
    name="autotune",
    help="Agents propose, the harness measures, verifiers decide. Only what was verified is committed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models = typer.Typer(help="Models on this machine.", no_args_is_help=True)
app.add_typer(models, name="models")
app.add_typer(workload, name="workload")
app.add_typer(eval_group, name="eval")
app.add_typer(playbook_group, name="playbook")

DeploymentArg = Annotated[Path, typer.Argument(metavar="DEPLOYMENT", help="A deployment.yaml inside a git repository.")]
RunArg = Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id or folder; the latest by default.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of the runs.", envvar="AUTOTUNE_RUNS")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
BudgetText = Annotated[str, typer.Option("--budget", help="Wall clock for the whole run: 90s, 15m, 1.5h.")]
Trials = Annotated[int, typer.Option("--trials", min=0, help="Most exploration trials.")]
Tokens = Annotated[int, typer.Option("--llm-tokens", min=0, help="Most LLM tokens.")]


def main() -> None:
    """Run the command line; a UserError becomes its sentence and its exit code."""
    try:
        app()
    except UserError as error:
        if "--json" in sys.argv:
            print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
        sys.stderr.write(f"autotune: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("autotune: interrupted; everything that was started is stopped\n")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"autotune {__version__}")
        raise typer.Exit


@app.command()
def tune(
    deployment: DeploymentArg,
    budget: BudgetText = "15m",
    trials: Trials = 12,
    proposer: Annotated[str, typer.Option(help="expert (rules, no LLM) or llm.")] = "expert",
    llm_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the llm proposer.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    llm_key_env: Annotated[str | None, typer.Option(help="Variable that holds its key, where it needs one.")] = None,
    llm_tokens: Tokens = 200_000,
    llm_calls: Annotated[int, typer.Option(min=0, help="Most requests to the LLM, repeated ones too.")] = 400,
    llm_usd: Annotated[
        float | None, typer.Option(min=0, help="Most US dollars for the LLM; needs --llm-price.")
    ] = None,
    llm_price: Annotated[
        str | None, typer.Option(help="US dollars for a million tokens: INPUT,CACHED,OUTPUT or INPUT,OUTPUT.")
    ] = None,
    llm_timeout: Annotated[float, typer.Option(min=1.0, help="Seconds for each answer, its retries included.")] = 90.0,
    llm_max_tokens: Annotated[int, typer.Option(min=64, help="Most tokens of an answer, thoughts included.")] = 2048,
    commit: Annotated[bool, typer.Option(help="Commit what passes, on a branch of its own.")] = True,
    approval: Annotated[bool, typer.Option("--approve", help="Wait for `autotune approve` before committing.")] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Find, prove and commit a better configuration for DEPLOYMENT."""
    if llm_usd is not None and not math.isfinite(llm_usd):
        raise UserError(f"--llm-usd: expected an amount of US dollars, found {llm_usd}; leave it out for no limit")
    if llm_usd is not None and llm_price is None:
        raise UserError("--llm-usd: expected the model's prices beside it, found none; give --llm-price")
    llm = _llm(llm_url, llm_model, llm_key_env, llm_price, llm_timeout, llm_max_tokens) if proposer == "llm" else None
    limits = {"llm_tokens": llm_tokens, "llm_calls": llm_calls, "llm_usd": llm_usd}
    _leave(_tune(deployment, runs, _options(budget, trials, proposer, llm, limits, commit, approval)), as_json)


@app.command()
def resume(
    run: RunArg = "latest",
    budget: Annotated[str | None, typer.Option(help="A larger wall clock for the whole run.")] = None,
    trials: Annotated[int | None, typer.Option(min=0, help="A larger number of trials.")] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Go on with a run where it was left."""
    from autotune import harness
    from autotune.console import run_progress
    from autotune.harness.resumed import widened
    from autotune.report import write

    folder = harness.RunDir.open(runs, run)
    with run_progress() as progress:
        outcome = harness.resume(folder, progress, widened(folder, budget, trials))
        write(outcome.run)
    _leave(outcome, as_json)


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where the throwaway repository goes.")] = Path("demo"),
    budget: BudgetText = "15m",
    trials: Trials = 7,
    as_json: Json = False,
) -> None:
    """Tune a poorly configured SmolLM2-135M on this machine's CPU, in a throwaway git repository."""
    from autotune.console import err
    from autotune.demo import make_demo

    deployment = make_demo(directory)
    err.print(f"demo repository: {directory}; the deployment that will be tuned: {deployment}")
    options = _options(budget, trials, "expert", None, {}, commit=True, approval=False)
    _leave(_tune(deployment, directory / "runs", options), as_json)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve(context: typer.Context, model: Annotated[str, typer.Argument(help="A model's name or its folder.")]) -> None:
    """Serve MODEL with the bundled engine; further flags are the engine's own (see `python -m engine serve --help`)."""
    from tools.models import pull

    arguments = [sys.executable, "-m", "engine", "serve", str(pull(model)), *context.args]
    if not any(a == "--served-model-name" or a.startswith("--served-model-name=") for a in context.args):
        arguments += ["--served-model-name", Path(model).name]
    os.execv(sys.executable, arguments)


@app.command()
def report(run: RunArg = "latest", runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Write and show the report of a run: Markdown on stdout, and one HTML page beside it."""
    from autotune.console import err
    from autotune.harness import RunDir
    from autotune.report import write

    written = write(RunDir.open(runs, run))
    print((written.json if as_json else written.markdown).read_text(), end="")
    err.print(f"page: {written.html}")


@app.command()
def verify(run: RunArg = "latest", runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Check a run's record and derive its verdicts anew from the raw records. Exit 2 where something doesn't hold."""
    from autotune.harness import RunDir
    from autotune.verify import verify_run

    found = verify_run(RunDir.open(runs, run))
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        for problem in found.problems:
            print(f"problem: {problem}")
        for note in found.notes:
            print(f"note: {note}")
        holds = "the record holds" if found.holds else "the record doesn't hold"
        print(f"{found.run}: {holds}; verdict {found.verdict}, {'anchored' if found.anchored else 'unanchored'}")
    raise typer.Exit(0 if found.holds else 2)


for _command in (approve, bench, calibrate, capacity, compare, convert, doctor, gauntlet, reproduce):
    app.command()(_command)
app.command("import")(import_)


@models.command("pull")
def models_pull(
    name: Annotated[str, typer.Argument(help="smollm2-135m, a hub id, or a folder.")], as_json: Json = False
) -> None:
    """Fetch a model, check it, and make a Hugging Face directory of it; prints where."""
    from autotune.console import err
    from tools.models import pull

    path = pull(name, progress=lambda text: err.print(text))
    print(json.dumps({"model": name, "path": str(path)}) if as_json else path)


def _llm(
    url: str | None, model: str | None, key_env: str | None, price: str | None, timeout_s: float, max_tokens: int
) -> LlmOptions:
    from agents.llm_settings import LlmPrices
    from autotune.harness.prepare import LlmOptions

    if not url or not model:
        raise UserError("--proposer llm: expected an endpoint, found none; give --llm-url and --llm-model")
    if not math.isfinite(timeout_s):
        raise UserError(f"--llm-timeout: expected seconds, found {timeout_s}")
    prices = LlmPrices.parse(price).model_dump(exclude_none=True) if price is not None else None
    return LlmOptions(url, model, key_env, prices, timeout_s, max_tokens)


def _options(
    budget: str,
    trials: int,
    proposer: str,
    llm: LlmOptions | None,
    llm_limits: Mapping[str, Any],
    commit: bool,
    approval: bool,
) -> Options:
    from autotune.duration import parse_seconds
    from autotune.harness import Budget, Options

    if proposer not in ("expert", "llm"):
        raise UserError(f"--proposer: expected expert or llm, found {proposer!r}")
    limits = Budget(wall_s=parse_seconds("--budget", budget), **llm_limits).with_trials(trials)
    chosen: Literal["expert", "llm"] = "llm" if llm is not None else "expert"
    return Options(chosen, llm, limits, commit, approval="required" if approval else "none")


def _tune(deployment: Path, runs: Path, options: Options) -> Outcome:
    from autotune.console import run_progress
    from autotune.harness import start
    from autotune.report import write

    with run_progress() as progress:
        outcome = start(deployment, runs, options, progress)
        write(outcome.run)
    return outcome


def _leave(outcome: Outcome, as_json: bool) -> NoReturn:
    """Print how a run ended and exit with its code."""
    from autotune.report import read_facts
    from autotune.summary_table import show

    if as_json:
        facts: dict[str, Any] = read_facts(outcome.run).to_json()
        print(json.dumps({**facts, "sentence": outcome.sentence, "exit_code": outcome.exit_code}))
    else:
        show(outcome)
    raise typer.Exit(outcome.exit_code)
