"""`python -m engine serve MODEL_DIR`, and `python -m engine knobs`."""

from __future__ import annotations

import argparse
import os
import sys

from engine.errors import StartRefused
from engine.flags import FlagParser, add_knob_flags, knobs_from
from engine.knob_page import knob_page
from engine.limits import context_limit
from engine.listening import bound_socket
from engine.model_config import ModelConfig
from engine.server.options import add_option_flags, options_from
from engine.server.orders import Start
from engine.server.process import EngineProcess

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code. 2: refused, with `engine: error: KIND: SENTENCE` on stderr."""
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
    options = options_from(parsed)
    with bound_socket(parsed.host, parsed.port) as sock:
        context_limit(knobs, ModelConfig.load(parsed.model))
        # All that can be refused cheaply has been. The engine loads while the server is imported.
        process = EngineProcess(
            Start(options.model_path, knobs, os.getpid(), frozenset(options.engine_cpus), options.trace)
        )
        try:
            from engine.server.main import serve

            return serve(process, options, knobs, sock)
        finally:
            process.end()


def parser() -> FlagParser:
    top = FlagParser(prog="engine", description="The bundled LLM serving engine.", allow_abbrev=False)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=FlagParser)
    table = commands.add_parser("knobs", help="print the knob table as Markdown", allow_abbrev=False)
    table.set_defaults(run=print_knobs)
    command = commands.add_parser("serve", help="serve a model over HTTP", allow_abbrev=False)
    add_option_flags(command)
    add_knob_flags(command)
    command.set_defaults(run=serve_model)
    return top


if __name__ == "__main__":
    sys.exit(main())
