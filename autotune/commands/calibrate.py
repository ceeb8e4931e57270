"""`autotune calibrate`: a server's service curve, its knee, and the best rate under a promise, from a few loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from autotune.asked_load import AskedLoad
    from autotune.console import RunProgress
    from tools.measure.floor import Floor
    from tools.service import ServiceCalibration

__all__ = ["calibrate"]

INVALID = 3
"""Exit code: calibrated, but the numbers can't be used."""


def calibrate(
    target: Annotated[str, typer.Argument(help="A deployment.yaml, or the URL of a running OpenAI-compatible server.")],
    workload: Annotated[
        str | None,
        typer.Option(help="A preset (see `workload presets`), or YAML with workload: (and slo:)."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask for; the only one served by default.")] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help='A promise, e.g. "ttft_ms.p95=500"; repeat for more. Replaces slo: of YAML.'),
    ] = None,
    budget: Annotated[str, typer.Option(help="Wall clock for all of it: 90s, 5m.")] = "5m",
    requests: Annotated[
        int | None,
        typer.Option(min=1, help="Requests for the curve; a third of a sweep over ten rates by default."),
    ] = None,
    verify: Annotated[int, typer.Option(min=0, max=10, help="Most loads that verify the best rate.")] = 2,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that send the load.")] = 1,
    floor: Annotated[bool, typer.Option(help="First measure the client itself (about 3 s).")] = True,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the requests; the workload's by default.")] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that holds the server's API key.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the calibration as JSON; `autotune capacity --curve` reads it.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Learn from a few loads how fast a server is at any rate, where its knee is, and the best rate under a promise.

    --model and --key-env are for a server that runs already. Exit code 3: the numbers can't be used (see the doubts).
    """
    import json

    from autotune.calibration_report import show, write
    from autotune.console import run_progress
    from autotune.duration import parse_seconds

    for path in (out, page):
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"{path}: expected a folder to write to, found none at {path.absolute().parent}")
    limits = {"budget_s": parse_seconds("--budget", budget), "verify_loads": verify, "workers": workers, "seed": seed}
    with run_progress() as progress:
        found = _measured(target, workload, model, slo or [], requests, key_env, floor, limits, progress)
    write(found, out, page)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show(found)
    if any(doubt.invalid for doubt in found.doubts):
        raise typer.Exit(INVALID)


def _measured(
    target: str,
    workload: str | None,
    model: str | None,
    slo: list[str],
    requests: int | None,
    key_env: str | None,
    with_floor: bool,
    limits: dict[str, Any],
    progress: RunProgress,
) -> ServiceCalibration:
    """Calibrate `target`, launching it first where it is a deployment."""
    import tempfile

    from autotune.asked_load import AskedLoad
    from autotune.endpoint import as_deployed, at_url, is_url
    from tools.deployment import load_deployment
    from tools.service.campaign import calibrate_service

    file = None
    if is_url(target):
        load = _asked(workload, slo, progress)
    else:
        _refuse_of_a_url(model, key_env)
        file = load_deployment(Path(target))
        load = _asked(workload, slo, progress, AskedLoad(file.deployment.workload, file.deployment.slo))
    budgeted = _budgeted(requests, load)
    served = at_url(target, model, key_env) if file is None else as_deployed(file)
    plan = limits | {"requests": budgeted, "floor": _floor(with_floor, limits, progress)}
    with tempfile.TemporaryDirectory() as folder:
        progress.phase("launch", target, None)
        with served.up(Path(folder) / "server.log") as endpoint:
            return calibrate_service(
                endpoint,
                load.spec,
                load.slo,
                target=served.name,
                reset=lambda: served.target.reset_cache(endpoint),
                progress=progress,
                **plan,
            )


def _asked(workload: str | None, slo: list[str], progress: RunProgress, own: AskedLoad | None = None) -> AskedLoad:
    """The mix to send and the promise to keep; `own` is the deployment's.

    Raises:
        UserError: not a workload, or the very requests and not their distribution.
    """
    from dataclasses import replace

    from autotune.asked_load import asked_load
    from autotune.promise import parse_promise

    if workload is not None or own is None:
        if workload is None:
            progress.note("no --workload: prompts of 64 to 448 words and answers of 32 to 224 tokens, evenly spread")
        own = asked_load(workload, _DEFAULT_MIX)
    if own.fixed is not None:
        raise UserError(
            f"--workload {workload}: expected a preset or YAML with workload:, found the very requests; a calibration "
            "draws its own at several rates. Give the YAML that they were made from"
        )
    return replace(own, slo=parse_promise(slo)) if slo else own


def _refuse_of_a_url(model: str | None, key_env: str | None) -> None:
    """What would be given up in silence: a deployment names its model, and its server is ours."""
    for option, value in (("--model", model), ("--key-env", key_env)):
        if value is not None:
            raise UserError(
                f"{option}: expected it with the URL of a running server, found it with a deployment, which says "
                f"itself what it serves; leave {option} out"
            )


def _budgeted(requests: int | None, load: AskedLoad) -> int:
    """A third of what ten rates with the workload's requests each would send, unless another number was asked.

    Raises:
        UserError: too few to see anything.
    """
    from tools.service.plan import LEAST_REQUESTS, CampaignPlan

    chosen = requests or max(10 * load.spec.requests // 3, LEAST_REQUESTS)
    CampaignPlan.of(chosen)  # to be refused before anything is launched
    return chosen


def _floor(wanted: bool, limits: dict[str, Any], progress: RunProgress) -> Floor | None:
    if not wanted:
        return None
    from tools.measure.self_calibration import measure_floor

    progress.phase("self-calibration", "the client against a mock server", 3.0)
    found = measure_floor(limits["workers"])
    progress.note(f"client's floor: {found}")
    return found


_DEFAULT_MIX = {
    "requests": 64,
    "prompt_tokens": {"min": 64, "max": 448},
    "output_tokens": {"min": 32, "max": 224},
    "arrivals": {"kind": "poisson", "rate_rps": 1.0},
}
