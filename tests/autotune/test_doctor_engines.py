"""The doctor of engines: programs that print what the real ones printed, and some that don't end or can't start."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autotune.commands.doctor import doctor
from autotune.doctor import check_engine, worst
from tools.errors import UserError

RECORDED = Path(__file__).parents[1] / "tools" / "files" / "tables"
VLLM = (RECORDED / "vllm-0.32.0.txt").read_text()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that answers `--version` and its help as vLLM does; `help.txt` beside it is what it prints."""
    path = tmp_path / "vllm"
    path.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "print('WARNING 11-30 [a.py:12] a plugin 1.2 is old', file=sys.stderr, flush=True)\n"
        "here = pathlib.Path(__file__).parent\n"
        "if sys.argv[1:] == ['--version']:\n"
        "    print('0.32.0+cpu')\n"
        "elif sys.argv[1:] == ['serve', '--help=all']:\n"
        "    print((here / 'help.txt').read_text())\n"
        "else:\n"
        "    sys.exit(2)\n"
    )
    path.chmod(0o755)
    (tmp_path / "help.txt").write_text(VLLM)
    return path


def test_an_engine_as_its_table_has_it_is_sound(program: Path) -> None:
    profile, checks = check_engine("vllm", [str(program)])
    assert profile is not None and profile.version == "0.32.0+cpu" and profile.drifts == ()
    assert worst(checks) == "ok"
    assert "compared with 0.32.0" in checks[0].found and "knobs and" in checks[1].found


def test_a_renamed_flag_is_told_with_what_to_do(program: Path) -> None:
    program.with_name("help.txt").write_text(VLLM.replace("--max-num-seqs", "--max-sequences"))
    profile, checks = check_engine("vllm", [str(program)])
    assert profile is not None and {each.knob for each in profile.drifts} == {"max_num_seqs"}
    check = next(each for each in checks if each.status == "fail")
    assert "max_num_seqs (--max-num-seqs)" in check.found and "out of `config:`" in check.do


def test_another_version_is_told_and_so_are_new_choices_that_break_nothing(program: Path) -> None:
    program.write_text(program.read_text().replace("0.32.0+cpu", "0.20.0"))
    program.with_name("help.txt").write_text(VLLM.replace("{fcfs,priority}", "{fcfs,priority,fair}"))
    profile, checks = check_engine("vllm", [str(program)])
    assert profile is not None and not profile.table.covers(profile.version)
    assert checks[0].status == "warn" and "0.20.0" in checks[0].found
    assert any("fair" in each.found and each.status == "ok" for each in checks)


@pytest.mark.parametrize(
    ("answer", "said"),
    [("sys.exit(3)", "3"), ("print('no help here')", "found no flag"), ("time.sleep(60)", "hadn't ended within 2 s")],
)
def test_a_program_that_fails_says_nothing_or_never_ends_is_told(program: Path, answer: str, said: str) -> None:
    text = program.read_text().replace("import pathlib, sys", "import pathlib, sys, time")
    program.write_text(text.replace("print((here / 'help.txt').read_text())", answer))
    profile, checks = check_engine("vllm", [str(program)], timeout_s=2.0 if "sleep" in answer else 60.0)
    assert profile is None and [each.status for each in checks] == ["fail"]
    assert said in checks[0].found and "--engine-command" in checks[0].do


def test_what_a_program_leaves_behind_is_reaped(program: Path) -> None:
    """A child in the background that would outlive its parent, as an engine's worker does."""
    child = program.with_name("child.pid")
    program.write_text(
        "#!/bin/sh\n"
        f"sleep 300 & echo $! > {child}\n"
        f'if [ "$1" = --version ]; then echo 0.32.0; else cat {program.with_name("help.txt")}; fi\n'
    )
    profile, _ = check_engine("vllm", [str(program)])
    assert profile is not None
    pid = int(child.read_text())
    for _ in range(100):
        if not _runs(pid):
            break
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_engine_that_is_not_there_or_not_known(tmp_path: Path) -> None:
    profile, checks = check_engine("llamacpp", [str(tmp_path / "llama-server")])
    assert profile is None and checks[0].status == "fail"
    with pytest.raises(UserError, match="expected one of vllm, sglang, llamacpp"):
        check_engine("bundled")


def test_the_command_gives_one_json_object_and_fails_where_a_knob_would_be_refused(program: Path) -> None:
    app = typer.Typer()
    app.command()(doctor)
    words = ["--json", "--engine", "vllm", "--engine-command", str(program)]
    told = json.loads(CliRunner().invoke(app, words).stdout)
    assert told["engine"]["version"] == "0.32.0+cpu" and told["engine"]["drifts"] == []
    program.with_name("help.txt").write_text(VLLM.replace("--block-size", "--page-size"))
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert [each["knob"] for each in json.loads(result.stdout)["engine"]["drifts"]] == ["block_size"]
    assert isinstance(CliRunner().invoke(app, ["--engine-command", "x"]).exception, UserError)
