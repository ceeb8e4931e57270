"""`autotune workload`: request logs into workload specs, specs into requests, and prompts that share better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tools.errors import UserError

if TYPE_CHECKING:
    from tools.measure.workload import WorkloadClass, WorkloadSpec
    from tools.traces.reading import Encode

__all__ = ["workload"]

workload = typer.Typer(help="Request logs, workload specs and prompts that share.", no_args_is_help=True)

LogArg = Annotated[Path, typer.Argument(metavar="LOG", help="A request log, plain or .gz; its format is found out.")]
Format = Annotated[str | None, typer.Option("--format", help="The log's format, where it isn't found out.")]
Tokenizer = Annotated[
    Path | None, typer.Option(help="Folder with a tokenizer, for logs of text: counts and shares in real tokens.")
]
Class = Annotated[str, typer.Option("--class", help="chat, chat-plus, background-agent or data-processor.")]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Most conversations that the spec keeps as a sample.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@workload.command()
def describe(
    log: LogArg,
    out: Annotated[Path | None, typer.Option(help="Write the workload spec (YAML) there.")] = None,
    log_format: Format = None,
    tokenizer: Tokenizer = None,
    workload_class: Class = "chat",
    rows: Rows = 2000,
    as_json: Json = False,
) -> None:
    """Describe a request log, and make a workload spec that behaves like it. No text is kept."""
    from autotune.console import err, run_progress
    from autotune.workload_tables import show_description
    from tools.traces import read_log
    from tools.traces.describe import describe as described
    from tools.traces.spec_file import spec_yaml
    from tools.whole_file import replaced

    kind = _class(workload_class)
    with run_progress() as progress:
        progress.phase("read", log.name, None)
        read = read_log(log, format_name=log_format, encode=_encode(tokenizer))
        progress.phase("describe", f"{len(read.requests)} requests", None)
        found = described(read, workload_class=kind, most_rows=rows)
    if out is not None:
        comments = (f"The twin of {log.name} ({found.log.format}): autotune workload describe",)
        with replaced(out) as file:
            file.write(spec_yaml(found.spec, comments).encode())
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show_description(found)
    if out is not None:
        err.print(f"workload: {out}", soft_wrap=True, markup=False)


@workload.command()
def doctor(
    log: LogArg,
    prefill_tokens_per_s: Annotated[
        float | None, typer.Option(help="How fast a prompt is read, tokens a second: gives the TTFT saved.")
    ] = None,
    curve: Annotated[
        Path | None, typer.Option(help="The same from a calibration (autotune calibrate --out) or service curve.")
    ] = None,
    log_format: Format = None,
    requests: Annotated[int, typer.Option(min=4, help="Look at so many of the log's first requests.")] = 2000,
    as_json: Json = False,
) -> None:
    """Find what keeps prompts from sharing a prefix, and what mending it would give."""
    from autotune.console import run_progress
    from autotune.workload_tables import show_diagnosis
    from tools.traces.doctor import diagnose

    if prefill_tokens_per_s is not None and curve is not None:
        raise UserError("expected one of --prefill-tokens-per-s and --curve, found both; keep one")
    if prefill_tokens_per_s is not None and not prefill_tokens_per_s > 0:
        raise UserError(f"--prefill-tokens-per-s: expected a speed above 0, found {prefill_tokens_per_s:g}")
    per_token = 1 / prefill_tokens_per_s if prefill_tokens_per_s is not None else None
    if curve is not None:
        per_token = _prefill_s_per_token(curve)
    with run_progress() as progress:
        progress.phase("doctor", f"the first {requests} requests of {log.name}", None)
        found = diagnose(log, format_name=log_format, prefill_s_per_token=per_token, most=requests)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        show_diagnosis(found)


@workload.command()
def materialise(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A workload's YAML, a preset, or a request log.")],
    out: Annotated[Path | None, typer.Option(help="Write the requests there: JSON lines, compressed for .gz.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the requests; the spec's own by default.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="So many, instead of the spec's.")] = None,
    scale: Annotated[float, typer.Option(help="Lengths and rate times this: 0.1 for a small machine.")] = 1.0,
    replay: Annotated[
        bool, typer.Option("--replay", help="A log's own requests, each once, at its own moment.")
    ] = False,
    speed: Annotated[float, typer.Option(help="With --replay: so many times as fast.")] = 1.0,
    log_format: Format = None,
    tokenizer: Tokenizer = None,
    as_json: Json = False,
) -> None:
    """Make the concrete requests of a workload: the same spec and seed give the same bytes."""
    from autotune.asked_load import AskedLoad
    from autotune.console import err, run_progress
    from tools.measure.workload import materialise as made
    from tools.measure.workload_file import write_workload
    from tools.traces.scaled import scaled

    if speed != 1.0 and not replay:
        raise UserError("--speed: expected with --replay only; --scale changes the rate of a workload")
    for name, value in (("--scale", scale), ("--speed", speed)):
        if not value > 0:
            raise UserError(f"{name}: expected a number above 0, found {value:g}")
    with run_progress() as progress:
        progress.phase("read", source, None)
        spec = _spec(source, replay=replay, speed=speed, log_format=log_format, tokenizer=tokenizer)
        if scale != 1.0:
            spec = scaled(spec, scale)
        if requests is not None:
            spec = AskedLoad(spec).of(requests).spec
        progress.phase("materialise", f"{spec.requests} requests", None)
        concrete = made(spec, seed)
    if out is not None:
        write_workload(concrete, out)
        err.print(f"requests: {out}", soft_wrap=True, markup=False)
    words = concrete.prompt_words
    facts: dict[str, Any] = {
        "requests": len(concrete.requests),
        "conversations": len({request.conversation for request in concrete.requests}),
        "seed": concrete.seed,
        "digest": concrete.digest,
        "spec_digest": concrete.spec_digest,
        "prompt_words_mean": sum(words) / len(words),
        "output_tokens_mean": sum(request.max_tokens for request in concrete.requests) / len(concrete.requests),
        "declared_sharing": concrete.declared_sharing,
        "last_start_s": max((r.scheduled_s for r in concrete.requests if r.scheduled_s is not None), default=None),
    }
    print(json.dumps(facts) if as_json else "\n".join(f"{name}: {_plain(value)}" for name, value in facts.items()))


@workload.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one's file.")] = None,
    as_json: Json = False,
) -> None:
    """List the archetypes that are shipped, or print one."""
    from autotune.workload_tables import show_presets
    from tools.traces.presets import PRESETS, preset

    if name is not None and name not in PRESETS:
        raise UserError(f"expected a preset ({', '.join(PRESETS)}), found {name!r}")
    chosen = [preset(known) for known in PRESETS if name in (None, known)]
    if as_json:
        print(
            json.dumps(
                {
                    each.name: {
                        "about": each.about,
                        "objective": each.objective,
                        "slo": each.slo.model_dump(mode="json", exclude_none=True),
                        "workload": each.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
                    }
                    for each in chosen
                }
            )
        )
    elif name is not None:
        print(chosen[0].text, end="")
    else:
        show_presets(chosen)


def _spec(source: str, *, replay: bool, speed: float, log_format: str | None, tokenizer: Path | None) -> WorkloadSpec:
    from tools.traces import read_log
    from tools.traces.conversations import conversations_of
    from tools.traces.presets import PRESETS, preset
    from tools.traces.spec_file import read_spec
    from tools.traces.twin import replay_of, twin_of

    path = Path(source)
    of_log = path.suffix.lower() not in (".yaml", ".yml")
    if not of_log or source in PRESETS:
        if replay:
            raise UserError(f"--replay: expected a request log, found {source}")
        return read_spec(path).spec if not of_log else preset(source).spec
    if not path.exists():
        raise UserError(
            f"{source}: expected a workload's YAML, a preset ({', '.join(PRESETS)}) or a request log, found none"
        )
    log = read_log(path, format_name=log_format, encode=_encode(tokenizer))
    return replay_of(log, speed=speed) if replay else twin_of(log, conversations_of(log.requests))


def _class(name: str) -> WorkloadClass:
    from typing import get_args

    from tools.measure.workload import WorkloadClass

    known: tuple[WorkloadClass, ...] = get_args(WorkloadClass)
    for each in known:
        if each == name:
            return each
    raise UserError(f"--class: expected one of {', '.join(known)}, found {name!r}")


def _encode(tokenizer: Path | None) -> Encode | None:
    if tokenizer is None:
        return None
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UserError(f"--tokenizer {tokenizer}: expected a folder with a tokenizer, found none: {error}") from None
    return lambda text: list(loaded.encode(text, add_special_tokens=False))


def _prefill_s_per_token(path: Path) -> float:
    from tools.service.curve import ServiceCurve

    try:
        data = json.loads(path.read_text())
        return ServiceCurve.from_json(data.get("curve", data)).prefill_s_per_token
    except OSError as error:
        raise UserError(f"--curve {path}: expected a file that can be read, found {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"--curve {path}: expected a calibration or a service curve as JSON, found {type(error).__name__}; "
            "autotune calibrate --out writes one"
        ) from None


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
