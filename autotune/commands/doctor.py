"""`autotune doctor`: what of this install, of an engine's, or of an LLM's endpoint, will get in the way."""

from __future__ import annotations

import math
import shlex
from typing import Annotated

import typer

from tools.errors import UserError

__all__ = ["doctor"]

_LLM_S, _ENGINE_S = 60.0, 180.0
"For each answer. vLLM takes half a minute to tell its help on a busy machine."


def doctor(
    llm_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint to probe, with its /v1.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    llm_key_env: Annotated[str | None, typer.Option(help="Variable that holds its key, where it needs one.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Compare its knob table with vllm, sglang or llamacpp here.")
    ] = None,
    engine_command: Annotated[
        str | None, typer.Option(help="The engine's program and its first words; by default its own name on PATH.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=1.0, help="Seconds for each answer; by default 60 of an endpoint, 180 of an engine."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check this install, an engine's against its knob table, and what an LLM's endpoint can do.

    Exit 1 where something can't work.
    """
    import json

    from autotune.console import err
    from autotune.doctor import check_engine, check_install, probe_endpoint, worst
    from autotune.doctor.show import show

    if (llm_url is None) is not (llm_model is None):
        raise UserError("doctor: expected both --llm-url and --llm-model, or neither")
    if engine_command is not None and engine is None:
        raise UserError("doctor: --engine-command needs --engine, which says whose table it is compared with")
    if timeout is not None and not math.isfinite(timeout):
        raise UserError(f"--timeout: expected seconds, found {timeout}")
    checks, profile, installed = check_install(), None, None
    if engine is not None:
        limit_s = timeout or _ENGINE_S
        err.print(f"asking {engine} for its version and its help, up to {limit_s:g} s each")
        installed, found = check_engine(engine, _words(engine_command or ""), timeout_s=limit_s)
        checks += found
    if llm_url is not None and llm_model is not None:
        from agents.llm_settings import LlmSettings

        err.print(f"asking {llm_url} about ten questions")
        settings = LlmSettings(model=llm_model, base_url=llm_url, api_key_env=llm_key_env, timeout_s=timeout or _LLM_S)
        profile, found = probe_endpoint(settings)
        checks += found
    status = worst(checks)
    if as_json:
        llm = profile.to_json() if profile is not None else None
        told = installed.to_json() if installed is not None else None
        print(
            json.dumps({"status": status, "checks": [check.to_json() for check in checks], "llm": llm, "engine": told})
        )
    else:
        show(checks, profile)
    raise typer.Exit(1 if status == "fail" else 0)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UserError(f"--engine-command: expected words as in a shell, found {command!r}: {error}") from None
