"""Why a server didn't start or didn't live: exit status and log, sorted into the kinds that a search can learn from."""

from __future__ import annotations

import re
import signal
from typing import cast, get_args

from tools.targets.target import FailureKind

__all__ = ["classify"]

_OWN_LINE = re.compile(r"^engine: error: (?P<kind>[a-z_]+): (?P<sentence>.+)$", re.MULTILINE)

_SIGNS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "oom",
        re.compile(
            r"out of memory|OutOfMemoryError|MemoryError|cannot allocate memory|can't allocate memory|std::bad_alloc"
            r"|No available memory for the cache blocks|not enough memory",
            re.IGNORECASE,
        ),
    ),
    ("port_taken", re.compile(r"address already in use|EADDRINUSE|errno 98\b", re.IGNORECASE)),
    (
        "model_missing",
        re.compile(
            r"is not a local folder and is not a valid model identifier|no such model|model not found"
            r"|No such file or directory: .*(config\.json|safetensors|gguf)|failed to load model",
            re.IGNORECASE,
        ),
    ),
    (
        "bad_config",
        re.compile(
            r"unrecogni[sz]ed arguments|invalid choice|error: argument |no such option|unknown option|validation error|"
            r"ValidationError|unexpected keyword",
            re.IGNORECASE,
        ),
    ),
)


def classify(exit_code: int | None, log_text: str, timed_out: bool) -> tuple[FailureKind, str]:
    """The kind of a failed launch and one sentence for a person.

    The bundled engine's own line `engine: error: KIND: SENTENCE` is believed first; then the last telling line of the
    log; then the exit status. `exit_code` is None while the process lives; -n or 128 + n means signal n.
    """
    own = list(_OWN_LINE.finditer(log_text))
    if own and own[-1]["kind"] in get_args(FailureKind):
        return cast(FailureKind, own[-1]["kind"]), own[-1]["sentence"].strip()
    for line in reversed(log_text.splitlines()):
        for kind, sign in _SIGNS:
            if sign.search(line):
                return kind, f"the server said: {line.strip()[:300]}"
    if timed_out:
        return "timeout", "the server was started but did not become ready in time"
    number = _signal_of(exit_code)
    if number == signal.SIGKILL:
        return "oom", "the server was killed (SIGKILL); on Linux that is how the kernel ends what exhausts the memory"
    if number is not None:
        return "crash", f"the server was ended by {signal.Signals(number).name}"
    if exit_code == 127:
        return "crash", "the server's command could not be started"
    return "crash", f"the server ended by itself with exit status {exit_code}"


def _signal_of(exit_code: int | None) -> int | None:
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    return number if number in set(signal.Signals) else None
