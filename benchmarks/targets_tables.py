"""Row `tables`: the knob tables against what the engines themselves say.

vLLM and llama.cpp are the ones under PEERS, asked for their help as `autotune doctor --engine` asks them. SGLang needs
a GPU's libraries to say anything: its argument table is read from its published package, as

    pip download --no-deps --dest $PEERS/dl sglang==0.5.23
    python -m benchmarks.sglang_arguments $PEERS/dl/sglang-*.whl > tests/tools/files/tables/sglang-0.5.23.json

do; without a package in $PEERS/dl the record is taken, and with --quick vLLM's recorded help.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.doctor.engines import help_of
from benchmarks.peers import ROOT, Unmeasurable, peers
from benchmarks.sglang_arguments import published_flags
from benchmarks.table import Row
from tools.targets.engine_name import EngineName
from tools.targets.tables import KnobTable, table_file, table_for
from tools.targets.tables.drift import Drift, drift_of_flags
from tools.targets.tables.engine_flag import EngineFlag, by_spelling
from tools.targets.tables.help_text import read_help

__all__ = ["row"]

RECORDED = ROOT / "tests" / "tools" / "files" / "tables"
PROGRAMS: dict[EngineName, str] = {"vllm": "venvs/vllm/bin/vllm", "llamacpp": "build-llama/bin/llama-server"}
_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One engine's table and its own word."""

    table: KnobTable
    source: str
    flags: Mapping[str, EngineFlag]

    @property
    def drifts(self) -> tuple[Drift, ...]:
        return drift_of_flags(self.table, self.flags)

    @property
    def flagged(self) -> list[str]:
        return [row.flag for row in self.table.rows.values() if row.flag]

    def noticed(self) -> int:
        """How many flags' renaming is noticed, one renamed at a time."""
        return sum(self._notices(flag) for flag in self.flagged)

    def _notices(self, flag: str) -> bool:
        renamed = {name if name != flag else f"--new-{flag[2:]}": each for name, each in self.flags.items()}
        return any(
            each.flag == flag and each.kind in ("gone", "renamed") for each in drift_of_flags(self.table, renamed)
        )


def row(quick: bool) -> Row:
    """Every listed knob exists with that flag and type, and no flag can be renamed without being noticed."""
    compared = [_vllm(quick), _asked("llamacpp"), _sglang()]
    drifts = [each for one in compared for each in one.drifts if each.breaks]
    listed = sum(len(one.table.rows) + len(one.table.forbidden) for one in compared)
    flags, noticed = sum(len(one.flagged) for one in compared), sum(one.noticed() for one in compared)
    knobs = sum(len(one.table.rows) for one in compared)
    return {
        "row": "tables",
        "value": f"{listed - len({(each.knob, each.flag) for each in drifts})} of {listed} ({knobs} knobs, the others "
        f"forbidden flags) as the engines say; {noticed} of {flags} renamed flags noticed",
        "goal": "every listed knob exists with that flag and type; a renamed one is noticed",
        "ok": not drifts and noticed == flags,
        "sources": {one.table.engine: one.source for one in compared},
        "drifts": [each.sentence for each in drifts],
    }


def _asked(engine: EngineName) -> Compared:
    program = peers() / PROGRAMS[engine]
    if not program.exists():
        raise Unmeasurable(f"{program} isn't there")
    version, text = help_of(engine, [str(program)], timeout_s=_WITHIN_S)
    return Compared(table_for(engine, version), f"the help of {version}, installed", read_help(text))


def _vllm(quick: bool) -> Compared:
    if not quick:
        return _asked("vllm")
    version = table_file("vllm").known[-1]
    text = (RECORDED / f"vllm-{version}.txt").read_text(encoding="utf-8")
    return Compared(table_for("vllm", version), f"the help of {version}, as recorded", read_help(text))


def _sglang() -> Compared:
    packages = sorted((peers() / "dl").glob("sglang-*.whl"))
    if packages:
        version = packages[-1].name.split("-")[1]
        source = f"the arguments in {packages[-1].name}"
        return Compared(table_for("sglang", version), source, by_spelling(published_flags(packages[-1])))
    version = table_file("sglang").known[-1]
    told = json.loads((RECORDED / f"sglang-{version}.json").read_text(encoding="utf-8"))
    flags = by_spelling(EngineFlag.from_json(each) for each in told.values())
    return Compared(table_for("sglang", version), f"the published arguments of {version}, as recorded", flags)
