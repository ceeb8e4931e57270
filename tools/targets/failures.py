"""Why a server didn't start or didn't live: exit status and log, sorted into the kinds that a search can learn from."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tools.targets.failure_signs import (
    CAUSES,
    KNOWN,
    PROGRESS,
    SELF_INFLICTED,
    SETTING_REFUSED,
    VAGUE,
    Cause,
    Phase,
    Voice,
    phase_of,
    spoken,
)
from tools.targets.target import FailureKind

__all__ = ["READ_LINES", "Diagnosis", "classify", "diagnose"]

READ_LINES = 1000
"""Lines at a log's end that tell why: a server of many processes tells its traceback once more for each of them."""

_OWN_LINE = re.compile(r"^engine: error: (?P<kind>[a-z_]+): (?P<sentence>.+)$")
_OWN_CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        "oom": "oom_at_load",
        "bad_config": "incompatible_knobs",
        "port_taken": "port_taken",
        "model_missing": "model_missing",
        "timeout": "slow_start",
        "crash": "crash",
        "unreachable": "unreachable",
    }
)
_OWN_FLAG = re.compile(r"unknown flag|unknown knob|: expected |^argument -")
_OWN_MODEL = re.compile(r"^the (?:model has|weights in|model's chat template) |config\.json\b")
"""A model that the engine can't run or read: it calls that bad_config, but no other config would do."""
_ENDED_FROM_OUTSIDE = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGILL, signal.SIGFPE, signal.SIGBUS})
"""Faults of a program's own: what lacks memory is told so, or killed."""
_WHEN: Mapping[Phase, str] = MappingProxyType(
    {
        "start": "before it loaded anything",
        "load": "while it loaded the model",
        "profile": "while it sized its KV cache, warmed up or recorded graphs",
        "serve": "while it served",
    }
)
_INTRODUCES = re.compile(r"validation errors? for \w+$")
"""pydantic's head line: which setting it is and what is wrong with it stand on the two lines after it."""
_SHOWN = 300
"""Characters of a log's line in a sentence."""
_LONGEST = 2000
"""Characters of a line that are read: what a server says of itself is short, what a request said may be endless."""
_LAST = 3
"""Lines at the end of a log that tell whether a start goes on."""
_AFTER = 3
"""Lines after a sign that may tell which part it belongs to: allocators speak before their callers do."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a server failed."""

    cause: Cause
    phase: Phase
    sentence: str
    "What it said, and what to do."

    @property
    def kind(self) -> FailureKind:
        """The coarser kind that the rest of the tools knows."""
        return CAUSES[self.cause][0]


def classify(exit_code: int | None, log_text: str, timed_out: bool) -> tuple[FailureKind, str]:
    """Kind and sentence of `diagnose`."""
    found = diagnose(exit_code, log_text, timed_out)
    return found.kind, found.sentence


def diagnose(exit_code: int | None, log_text: str, timed_out: bool) -> Diagnosis:
    """Why a launch failed: cause, phase and one sentence for a person.

    The bundled engine's own line `engine: error: KIND: SENTENCE` is believed first, unless it tells no more than that a
    part crashed; then the last line of the log that names a cause in the server's own voice; then the exit status; then
    an exception that refuses a setting, where nothing had been loaded yet. A log may quote what a request said, so a
    line counts for less the likelier that is: informational lines and the text of requests never count; once the server
    has been ready, only exceptions and errors do, and no setting, port or model can be to blame any more; and where the
    exit status tells another story (it ended well, was told to end, or ran into a fault of its own) only lines that the
    server's logger marked as errors do.

    Args:
        exit_code: None while the process lives; -n or 128 + n means signal n.
    """
    lines = [line[:_LONGEST] for line in log_text.splitlines()]
    ready = _last_ready(lines)
    after = lines[ready + 1 :]
    number = _signal_of(exit_code)
    own = next(filter(None, map(_OWN_LINE.match, reversed(after))), None)
    if own is not None and own["kind"] in _OWN_CAUSES and own["kind"] != "crash":
        return _own(own["kind"], own["sentence"].strip(), serving=ready >= 0)
    least = _least_voice(exit_code, number, serving=ready >= 0)
    for signs in (KNOWN, VAGUE):
        for at in range(len(lines) - 1, ready, -1):
            voice, text = spoken(lines, at)
            cause = next((cause for cause, sign in signs if sign.search(text)), None)
            if cause is not None and voice >= least and (ready < 0 or _may_end_serving(cause, voice)):
                return _told(cause, lines, at, ready)
    if own is not None and own["kind"] == "crash":
        return _own(own["kind"], own["sentence"].strip(), serving=ready >= 0)
    if timed_out:
        return _late(lines, ready)
    phase = "serve" if ready >= 0 else _reached(lines, len(lines) - 1)
    if number == signal.SIGKILL and not any(SELF_INFLICTED.search(line) for line in lines):
        cause = _out_of_memory(phase)
        return Diagnosis(
            cause,
            phase,
            f"the server was killed (SIGKILL) {_WHEN[phase]}; on Linux that is how the kernel ends what exhausts the "
            f"memory: {CAUSES[cause][1]}",
        )
    refusal = _last_refusal(lines)
    if phase == "start" and exit_code and number is None and refusal is not None:
        return _told("bad_flag", lines, refusal, ready)
    return Diagnosis("crash", phase, f"{_ending(exit_code, number)} {_WHEN[phase]}; {CAUSES['crash'][1]}")


def _last_refusal(lines: list[str]) -> int | None:
    """The last line in which an exception refuses a setting; None where none does."""
    for at in range(len(lines) - 1, -1, -1):
        voice, text = spoken(lines, at)
        if voice is Voice.RAISED and SETTING_REFUSED.search(text):
            return at
    return None


def _least_voice(exit_code: int | None, number: int | None, *, serving: bool) -> Voice:
    if exit_code == 0 or number in _ENDED_FROM_OUTSIDE | _FAULTS:
        return Voice.LOUD
    return Voice.RAISED if serving else Voice.PLAIN


def _may_end_serving(cause: Cause, voice: Voice) -> bool:
    """Whether it can end a server that said it was ready: uvicorn says so a moment before it takes its port."""
    return cause in ("oom_at_load", "hang") or (cause == "port_taken" and voice is Voice.LOUD)


def _last_ready(lines: list[str]) -> int:
    """The last line in which the server says that it answers requests; -1 where none does."""
    for at in range(len(lines) - 1, -1, -1):
        voice, text = spoken(lines, at)
        if voice <= Voice.PLAIN and phase_of(text) == "serve":
            return at
    return -1


def _own(kind: str, sentence: str, *, serving: bool) -> Diagnosis:
    """What the bundled engine says of itself; its sentences say what to do."""
    cause = _OWN_CAUSES[kind]
    phase: Phase = "serve" if serving or "while serving" in sentence else "start"
    if "while loading" in sentence:
        phase = "load"
    if cause == "oom_at_load":
        cause = _out_of_memory(phase)
    if cause == "incompatible_knobs" and _OWN_MODEL.search(sentence):
        cause = "model_missing"
    elif cause == "incompatible_knobs" and _OWN_FLAG.search(sentence):
        cause = "bad_flag"
    return Diagnosis(cause, phase, sentence)


def _told(cause: Cause, lines: list[str], at: int, ready: int) -> Diagnosis:
    """What line `at` says, with the phase that it or what stands around it tells."""
    phase: Phase
    if cause in ("bad_flag", "port_taken"):
        phase = "start"
    elif ready >= 0:
        phase = "serve"
    elif cause == "cache_too_small":
        phase = "profile"
    else:
        phase = _reached(lines, at)
    if cause == "oom_at_load":
        cause = _out_of_memory(phase)
    _, text = spoken(lines, at)
    if _INTRODUCES.search(text):
        text = " ".join([text, *(line.strip() for line in lines[at + 1 : at + 3])])
    return Diagnosis(cause, phase, f"the server said {_WHEN[phase]}: {text.strip()[:_SHOWN]}; {CAUSES[cause][1]}")


def _reached(lines: list[str], at: int) -> Phase:
    """How far a server that never became ready had come by line `at`: by the nearest line that tells."""
    near = [at, *range(at + 1, min(at + 1 + _AFTER, len(lines))), *range(at - 1, -1, -1)]
    told = (phase_of(lines[place]) for place in near if 0 <= place < len(lines))
    return next((phase for phase in told if phase is not None and phase != "serve"), "start")


def _out_of_memory(phase: Phase) -> Cause:
    by_phase: dict[Phase, Cause] = {"serve": "oom_under_burst", "profile": "oom_at_profile"}
    return by_phase.get(phase, "oom_at_load")


def _late(lines: list[str], ready: int) -> Diagnosis:
    """A server that lives and isn't ready: by the last lines it printed, still at work or stuck."""
    ends = [line for line in lines if line.strip()][-_LAST:]
    last = ends[-1] if ends else ""
    phase: Phase = "serve" if ready >= 0 else _reached(lines, len(lines) - 1)
    cause: Cause = "slow_start" if ready < 0 and any(map(PROGRESS.search, ends)) else "hang"
    shown = f", last: {last.strip()[:_SHOWN]}" if last else ""
    return Diagnosis(
        cause, phase, f"the server was started but did not become ready in time{shown}; {CAUSES[cause][1]}"
    )


def _ending(exit_code: int | None, number: int | None) -> str:
    if number is not None:
        return f"the server was ended by {signal.Signals(number).name}"
    if exit_code == 127:
        return "the server's command could not be started"
    return f"the server ended by itself with exit status {exit_code}"


def _signal_of(exit_code: int | None) -> int | None:
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    return number if number in set(signal.Signals) else None
