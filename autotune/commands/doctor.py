"""`autotune doctor`: what of this install, or of an LLM's endpoint, will get in the way."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from tools.errors import UserError

__all__ = ["doctor"]


def doctor(
    llm_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint to probe, with its /v1.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    llm_key_env: Annotated[str | None, typer.Option(help="Variable that holds its key, where it needs one.")] = None,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds for each answer of the endpoint.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check this install, and probe what an LLM's endpoint can do. Exit 1 where something can't work."""
    import json

    from autotune.console import err
    from autotune.doctor import check_install, probe_endpoint, worst
    from autotune.doctor.show import show

    if (llm_url is None) is not (llm_model is None):
        raise UserError("doctor: expected both --llm-url and --llm-model, or neither")
    if not math.isfinite(timeout):
        raise UserError(f"--timeout: expected seconds, found {timeout}")
    checks, profile = check_install(), None
    if llm_url is not None and llm_model is not None:
        from agents.llm_settings import LlmSettings

        err.print(f"asking {llm_url} about ten questions")
        settings = LlmSettings(model=llm_model, base_url=llm_url, api_key_env=llm_key_env, timeout_s=timeout)
        profile, found = probe_endpoint(settings)
        checks += found
    status = worst(checks)
    if as_json:
        llm = profile.to_json() if profile is not None else None
        print(json.dumps({"status": status, "checks": [check.to_json() for check in checks], "llm": llm}))
    else:
        show(checks, profile)
    raise typer.Exit(1 if status == "fail" else 0)
