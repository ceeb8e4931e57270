"""ServeOptions: what to serve, as what and to whom; how is for the knobs to say."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from engine.errors import StartRefused

__all__ = ["ServeOptions", "add_option_flags", "options_from"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says besides knobs."""

    model_path: Path
    served_model_name: str = ""
    "Name clients send as `model`; the directory's own name by default."
    drain_timeout_s: float = 30.0
    "How long running requests may go on after SIGTERM."
    stuck_after_s: float = 60.0
    "Without a sign of life from the engine for so long, /health fails. It gives one after every step."
    api_key: str = ""
    "What clients must send as bearer token; empty: nothing."
    request_log: Path | None = None
    "A JSON line per request, with token ids."
    request_log_text: bool = False
    "With the text of prompts and answers too."
    trace: Path | None = None
    "Where a trace of the engine's steps is written at the end, for Perfetto."
    engine_cpus: tuple[int, ...] = ()
    "Cores the engine's process is bound to; empty: all."
    server_cpus: tuple[int, ...] = ()


def add_option_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `serve` that aren't knobs."""
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL_DIR", help="a Hugging Face directory with safetensors")
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=int, default=8000, help="port to listen on; 0 takes a free one (default: 8000)")
    add("--served-model-name", default="", help="name clients send (default: the directory's name)")
    add("--api-key", default="", help="what clients must send as bearer token (default: $ENGINE_API_KEY, else none)")
    add(
        "--drain-timeout-s",
        type=float,
        default=30.0,
        metavar="S",
        help="for running requests after SIGTERM (default: 30)",
    )
    add(
        "--stuck-after-s",
        type=float,
        default=60.0,
        metavar="S",
        help="without a step, until /health fails (default: 60)",
    )
    add("--request-log", type=Path, metavar="FILE", help="append a JSON line per request, with token ids")
    add("--request-log-text", action="store_true", help="with the text of prompts and answers in the request log")
    add("--trace", type=Path, metavar="FILE", help="write a trace of all steps at the end, for Perfetto")
    add("--engine-cpus", default="", metavar="LIST", help="cores to bind the engine to, as 0,2-5 (default: all)")
    add("--server-cpus", default="", metavar="LIST", help="cores to bind the HTTP side to (default: all)")


def options_from(parsed: argparse.Namespace) -> ServeOptions:
    """What the flags say.

    Raises:
        StartRefused: kind bad_config; a value out of range, or a file that can't be written.
    """
    for flag, low, high in (("port", 0, 65535), ("drain_timeout_s", 0, 86400), ("stuck_after_s", 1, 86400)):
        if not low <= getattr(parsed, flag) <= high:
            name = "--" + flag.replace("_", "-")
            raise StartRefused("bad_config", f"{name}: expected {low} to {high}, found {getattr(parsed, flag)}")
    for flag, path in (("--request-log", parsed.request_log), ("--trace", parsed.trace)):
        if path is not None and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
            raise StartRefused("bad_config", f"{flag}: {path} can't be written; give a file in a folder that can")
    return ServeOptions(
        model_path=parsed.model,
        served_model_name=parsed.served_model_name,
        drain_timeout_s=parsed.drain_timeout_s,
        stuck_after_s=parsed.stuck_after_s,
        api_key=parsed.api_key or os.environ.get("ENGINE_API_KEY", ""),
        request_log=parsed.request_log,
        request_log_text=parsed.request_log_text,
        trace=parsed.trace,
        engine_cpus=cores("--engine-cpus", parsed.engine_cpus),
        server_cpus=cores("--server-cpus", parsed.server_cpus),
    )


def cores(flag: str, text: str) -> tuple[int, ...]:
    """The cores that `text` lists, as 0,2-5."""
    found: set[int] = set()
    try:
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    except ValueError:
        raise StartRefused("bad_config", f"{flag}: expected cores as 0,2-5, found {text!r}") from None
    if missing := found - os.sched_getaffinity(0):
        raise StartRefused("bad_config", f"{flag}: this process may not use core {min(missing)}")
    return tuple(sorted(found))
