"""Knob tables against what the engines say: recorded, and asked of the installed ones where PEERS names a folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tools.errors import UserError
from tools.targets.engine_name import EngineName
from tools.targets.process import allowed_environment
from tools.targets.tables import table_file, table_for
from tools.targets.tables.drift import Drift, drift, drift_of_config, drift_of_flags
from tools.targets.tables.engine_flag import EngineFlag, by_spelling
from tools.targets.tables.help_text import read_help

RECORDED = Path(__file__).parent / "files" / "tables"
HELPS: dict[EngineName, str] = {"vllm": "vllm-0.32.0.txt", "llamacpp": "llamacpp-0.6.0.txt"}
ARGUMENTS = {path.stem.removeprefix("sglang-"): path for path in sorted(RECORDED.glob("sglang-*.json"))}


def help_of(engine: EngineName) -> str:
    return (RECORDED / HELPS[engine]).read_text()


def arguments(version: str) -> dict[str, EngineFlag]:
    return by_spelling(EngineFlag.from_json(each) for each in json.loads(ARGUMENTS[version].read_text()).values())


@pytest.mark.parametrize("engine", HELPS)
def test_a_table_is_what_the_recorded_help_says(engine: EngineName) -> None:
    assert drift(table_for(engine), help_of(engine)) == ()


@pytest.mark.parametrize("version", ARGUMENTS)
def test_sglangs_table_is_its_published_one_at_each_version(version: str) -> None:
    assert drift_of_flags(table_for("sglang", version), arguments(version)) == ()


def test_a_version_with_another_versions_flags_drifts() -> None:
    found = drift_of_flags(table_for("sglang", "0.5.10"), arguments("0.5.23"))
    assert ("renamed", "cuda_graph_max_bs") in {(each.kind, each.knob) for each in found}


@pytest.mark.parametrize("engine", HELPS)
def test_each_flag_that_is_renamed_is_found(engine: EngineName) -> None:
    """One flag after the other, so that no row is there for the looks."""
    text = help_of(engine)
    for row in table_for(engine).rows.values():
        if row.flag:
            renamed = re.sub(rf"{row.flag}(?![\w-])", row.flag.replace("--", "--new-"), text)
            found = {(each.kind, each.flag) for each in drift(table_for(engine), renamed) if each.breaks}
            assert ("renamed", row.flag) in found or ("gone", row.flag) in found, row.name


def only(found: tuple[Drift, ...]) -> Drift:
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("before", "after", "kind", "knob"),
    [
        ("--max-num-seqs MAX_NUM_SEQS", "--max-num-seqs", "type", "max_num_seqs"),
        (
            "--enforce-eager, --no-enforce-eager",
            "--enforce-eager, --no-enforce-eager {on,off}",
            "type",
            "enforce_eager",
        ),
        ("--scheduling-policy {fcfs,priority}", "--scheduling-policy {fcfs,fair}", "choices", "scheduling_policy"),
        (
            "{balanced,interactivity,throughput}",
            "{balanced,interactivity,throughput,new}",
            "new_choices",
            "performance_mode",
        ),
        ("-q QUANTIZATION", "-Q QUANTIZATION", "gone", "quantization"),
        ("--no-enable-prefix-caching", "--without-prefix-caching", "renamed", "enable_prefix_caching"),
        ("--trust-remote-code, --no-trust-remote-code", "--trust-any-code", "gone", ""),
    ],
)
def test_every_kind_of_drift_is_told_apart(before: str, after: str, kind: str, knob: str) -> None:
    found = drift(table_for("vllm"), help_of("vllm").replace(before, after))
    assert (kind, knob) in {(each.kind, each.knob) for each in found}


def test_another_default_is_told_and_breaks_nothing() -> None:
    text = re.sub(r"(--stream-interval (?:.*\n)+?.*\(default: )1\)", r"\g<1>4)", help_of("vllm"), count=1)
    found = only(drift(table_for("vllm"), text))
    assert (found.kind, found.knob, found.breaks) == ("default", "stream_interval", False)
    assert "its default is 1" in found.sentence and "its default is 4" in found.sentence


def test_a_variable_that_says_something_else_is_told() -> None:
    found = only(drift(table_for("llamacpp"), help_of("llamacpp").replace("LLAMA_ARG_UBATCH", "LLAMA_ARG_MICRO_BATCH")))
    assert (found.kind, found.knob, found.flag) == ("gone", "ubatch", "LLAMA_ARG_UBATCH")


def test_the_effective_config_is_compared_by_the_servers_own_names() -> None:
    table = table_for("sglang")
    told = {
        "cuda_graph_max_bs_decode": 64,
        "disable_radix_cache": False,
        "quantization": None,
        "schedule_policy": "lpm",
    }
    asked = {"cuda_graph_max_bs": 64, "disable_radix_cache": False, "quantization": "none", "schedule_policy": "fcfs"}
    assert only(drift_of_config(table, asked, told)).sentence == (
        "schedule_policy (--schedule-policy): the table says schedule_policy is fcfs, the engine has lpm"
    )
    assert "doesn't name it" in only(drift_of_config(table, {"stream_interval": 1}, told)).sentence


def test_a_text_without_flags_is_no_help() -> None:
    with pytest.raises(UserError, match="found no flag"):
        read_help("vllm: command not found\n")


def installed_help(engine: EngineName) -> tuple[str, str]:
    """The version and the help of the engine installed under PEERS."""
    peers = os.environ.get("PEERS")
    if not peers:
        pytest.skip("PEERS names no folder of installed engines")
    program = Path(peers) / {"vllm": "venvs/vllm/bin/vllm", "llamacpp": "build-llama/bin/llama-server"}[engine]
    if not program.exists():
        pytest.skip(f"{engine} isn't installed under PEERS")
    words = {"vllm": ["serve", "--help=all"], "llamacpp": ["--help"]}[engine]
    environment = allowed_environment() | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}

    def told(*arguments: str) -> str:
        run = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return run.stdout or run.stderr

    return told("--version"), told(*words)


@pytest.mark.parametrize("engine", HELPS)
def test_a_table_is_what_the_installed_engine_says(engine: EngineName) -> None:
    version, text = installed_help(engine)
    table = table_for(engine, version)
    assert table.covers(version)
    assert drift(table, text) == ()


def test_the_newest_known_version_is_the_recorded_one() -> None:
    """A table that knows a version without a record of it would be checked against nothing."""
    assert table_file("vllm").known[-1] == "0.32.0" and table_file("llamacpp").known[-1] == "0.6.0"
    assert table_file("sglang").known[-1] == max(ARGUMENTS, key=lambda version: [*map(int, version.split("."))])
