"""`python -m engine serve MODEL_DIR`, and `python -m engine knobs`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from engine.errors import StartRefused
from engine.flags import FlagParser, add_knob_flags, knobs_from
from engine.knob_page import knob_page
from engine.limits import context_limit
from engine.listening import bound_socket
from engine.model_config import ModelConfig

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code. 2: refused, with `engine: error: KIND: SENTENCE` on stderr."""
    # Read by the OpenMP runtime when torch loads. A worker that sleeps between two kernels makes a decode step half as
    # long again; one that spins as long as by default takes the cores from the HTTP side and from whatever shares the
    # machine. This many turns bridge the gap between two kernels and not much more.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        parsed = parser().parse_args(arguments)
        code: int = parsed.run(parsed)
        return code
    except StartRefused as error:
        print(f"engine: error: {error.kind}: {error.sentence}", file=sys.stderr, flush=True)
        return 2


def print_knobs(_: argparse.Namespace) -> int:
    print(knob_page(), end="")
    return 0


def serve_model(parsed: argparse.Namespace) -> int:
    knobs = knobs_from(parsed)
    if not 0 <= parsed.port <= 65535:
        raise StartRefused("bad_config", f"--port: expected 0 to 65535, found {parsed.port}")
    if parsed.drain_timeout_s < 0:
        raise StartRefused("bad_config", f"--drain-timeout-s: expected 0 or more, found {parsed.drain_timeout_s}")
    with bound_socket(parsed.host, parsed.port) as sock:
        context_limit(knobs, ModelConfig.load(parsed.model))
        # All that can be refused cheaply has been: torch takes a second to import.
        from engine.server import ServeOptions, serve

        options = ServeOptions(
            model_path=parsed.model,
            served_model_name=parsed.served_model_name,
            drain_timeout_s=parsed.drain_timeout_s,
        )
        return serve(options, knobs, sock)


def parser() -> FlagParser:
    top = FlagParser(prog="engine", description="The bundled LLM serving engine.", allow_abbrev=False)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=FlagParser)
    table = commands.add_parser("knobs", help="print the knob table as Markdown", allow_abbrev=False)
    table.set_defaults(run=print_knobs)
    command = commands.add_parser("serve", help="serve a model over HTTP", allow_abbrev=False)
    command.add_argument("model", type=Path, metavar="MODEL_DIR", help="a Hugging Face directory with safetensors")
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    command.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one (default: 8000)")
    command.add_argument("--served-model-name", default="", help="name clients send (default: the directory's name)")
    command.add_argument(
        "--drain-timeout-s",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds that running requests may go on after SIGTERM (default: 30)",
    )
    add_knob_flags(command)
    command.set_defaults(run=serve_model)
    return top


if __name__ == "__main__":
    sys.exit(main())
