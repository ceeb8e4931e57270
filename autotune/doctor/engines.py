"""An installed engine's own help and version against its knob table: what of `config:` would be refused there."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.doctor.check import Check
from tools.errors import UserError
from tools.targets.engine_name import EngineName
from tools.targets.process import ServerProcess, allowed_environment
from tools.targets.tables import KnobTable, table_file, table_for
from tools.targets.tables.drift import Drift, drift
from tools.targets.target import LaunchFailed

__all__ = ["EngineProfile", "check_engine", "help_of"]

_QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_OUTPUT_BYTES = 4 << 20
"Of a help, all of it: vLLM's has 155 kB."


@dataclass(frozen=True, slots=True)
class _Asked:
    """How an engine is asked."""

    command: tuple[str, ...]
    help: tuple[str, ...]
    version: tuple[str, ...]
    "Behind the command; or, with `versioned_by`, behind that."
    versioned_by: str = ""
    "The distribution whose version it is, where the engine tells none: asked of the command's own Python."


_ENGINES: dict[EngineName, _Asked] = {
    "vllm": _Asked(("vllm",), ("serve", "--help=all"), ("--version",)),
    "sglang": _Asked(("python", "-m", "sglang.launch_server"), ("--help",), (), "sglang"),
    "llamacpp": _Asked(("llama-server",), ("--help",), ("--version",)),
}


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """What an installed engine is, by its own word, and where its table and it part."""

    engine: EngineName
    command: tuple[str, ...]
    version: str
    "As it tells it; empty where it tells none."
    table: KnobTable
    drifts: tuple[Drift, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "command": list(self.command),
            "version": self.version,
            "versions": self.table.versions,
            "known": list(table_file(self.engine).known),
            "knobs": len(self.table.rows),
            "forbidden": len(self.table.forbidden),
            "drifts": [each.to_json() for each in self.drifts],
        }


def check_engine(
    engine: str, command: Sequence[str] = (), *, timeout_s: float = 120.0
) -> tuple[EngineProfile | None, list[Check]]:
    """Ask the engine at `command` (by default its own name on PATH) for its version and its help, within `timeout_s`
    each; nothing is served, and nothing is left running.

    Raises:
        UserError: no such engine is known.
    """
    name = _known(engine)
    program = tuple(command) or _ENGINES[name].command
    try:
        version, text = help_of(name, program, timeout_s=timeout_s)
        table = table_for(name, version or None)
        profile = EngineProfile(name, program, version, table, drift(table, text))
    except (LaunchFailed, UserError) as error:
        do = "check --engine-command: the program's first words, as `/opt/vllm/bin/vllm`"
        return None, [Check(name, "fail", f"{' '.join(program)}: {error}", do)]
    return profile, [_release(profile), *_knobs(profile)]


def help_of(engine: EngineName, program: Sequence[str], *, timeout_s: float) -> tuple[str, str]:
    """What the engine whose first words are `program` says its version is, empty where it says none, and its help.

    Raises:
        LaunchFailed: it can't be started, fails, or hasn't answered within `timeout_s`.
    """
    asked = _ENGINES[engine]
    return _version(asked, program, timeout_s), _told([*program, *asked.help], timeout_s)


def _known(engine: str) -> EngineName:
    for name in _ENGINES:
        if name == engine:
            return name
    raise UserError(f"--engine: expected one of {', '.join(_ENGINES)}, found {engine!r}")


def _version(asked: _Asked, program: Sequence[str], timeout_s: float) -> str:
    if asked.versioned_by:
        code = f"from importlib.metadata import version; print(version({asked.versioned_by!r}))"
        text = _told([program[0], "-c", code], timeout_s)
    else:
        text = _told([*program, *asked.version], timeout_s)
    # An engine may warn of something before it says its version: the line that is one, or names one, counts.
    found = re.search(r"^(?:.*\bversion:?\s+)?v?(\d+(?:\.\d+)+[\w.+-]*)", text, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


def _told(words: Sequence[str], timeout_s: float) -> str:
    """All that `words` print before they end.

    Raises:
        LaunchFailed: they can't be started, fail, or haven't ended within `timeout_s`.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-doctor-") as folder:
        log = Path(folder) / "told"
        ends = time.monotonic() + timeout_s
        environment = allowed_environment() | _QUIET
        with ServerProcess(words, log=log, env=environment, log_cap_bytes=_OUTPUT_BYTES) as process:
            while process.exit_code is None and time.monotonic() < ends:
                time.sleep(0.05)
            code = process.exit_code
            process.stop(grace_s=0.0)
            if code is None:
                raise LaunchFailed("timeout", f"{' '.join(words)} hadn't ended within {timeout_s:g} s")
            if code:
                raise process.failure(code)
            return log.read_text(encoding="utf-8", errors="replace")


def _release(profile: EngineProfile) -> Check:
    known = ", ".join(table_file(profile.engine).known)
    span = profile.table.versions or "any version"
    if not profile.version:
        do = "its newest known version is assumed; what differs is told below"
        return Check(profile.engine, "warn", f"{' '.join(profile.command)} tells no version", do)
    found = f"{profile.version}; the table is about {span}, compared with {known}"
    if not profile.table.covers(profile.version):
        return Check(profile.engine, "warn", found, "the nearest version's table is used: see what differs below")
    return Check(profile.engine, "ok", found)


def _knobs(profile: EngineProfile) -> list[Check]:
    table, name = profile.table, f"{profile.engine} knobs"
    breaking = [each for each in profile.drifts if each.breaks]
    other = [each for each in profile.drifts if not each.breaks]
    checks = [
        Check(name, "fail", each.sentence, f"leave {each.knob} out of `config:` with this version")
        if each.knob
        else Check(name, "warn", each.sentence, "a proposal must not name what it is called now either")
        for each in breaking
    ]
    checks += [Check(name, "ok", f"{each.sentence}; nothing breaks") for each in other]
    if not breaking:
        sound = f"{len(table.rows)} knobs and {len(table.forbidden)} forbidden flags are as the engine says"
        checks.append(Check(name, "ok", sound))
    return checks
