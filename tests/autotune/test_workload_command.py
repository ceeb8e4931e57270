"""`autotune workload`, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autotune.commands.workload import workload
from tests.tiny_model import build_tiny_model
from tests.tools import traces_faults as faults
from tests.tools import traces_logs as logs
from tools.errors import UserError
from tools.measure.workload import materialise
from tools.measure.workload_file import read_workload
from tools.service.curve import ServiceCurve
from tools.traces.spec_file import read_spec


def run(*arguments: str) -> str:
    """What it prints on stdout; a UserError comes through."""
    result = CliRunner().invoke(workload, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return logs.chat_tenants(tmp_path / "chat.jsonl", 3, conversations=60)


def test_from_a_log_to_its_requests(chat: Path, tmp_path: Path) -> None:
    spec, requests = tmp_path / "twin.yaml", tmp_path / "requests.jsonl.gz"
    found = told("describe", str(chat), "--out", str(spec), "--class", "chat-plus")
    assert found["twin"]["holds"] and found["log"]["bad_lines"] == 0
    assert found["sharing"]["hit_rate"] > 0.7
    made = told("materialise", str(spec), "--seed", "7", "--out", str(requests))
    assert made["requests"] == found["log"]["requests"]
    workload_read = read_workload(requests)
    assert workload_read.digest == made["digest"] == materialise(read_spec(spec)[0], 7).digest
    assert workload_read.spec.workload_class == "chat-plus"
    assert told("materialise", str(spec), "--seed", "8")["digest"] != made["digest"]
    # Without the detour through a file it is the same workload.
    assert told("materialise", str(chat), "--seed", "7")["requests"] == made["requests"]


def test_people_get_tables(chat: Path) -> None:
    text = run("describe", str(chat))
    for expected in ("prompt tokens", "hit rate", "twin: KS distance at most", "conversations"):
        assert expected in text


def test_a_replay_has_the_moments_of_the_log(chat: Path) -> None:
    slow, fast = (told("materialise", str(chat), "--replay", "--speed", speed) for speed in ("1", "4"))
    assert fast["last_start_s"] == pytest.approx(slow["last_start_s"] / 4)
    assert fast["requests"] == fast["conversations"] == slow["requests"]


def test_presets_run_scaled() -> None:
    found = told("presets")
    assert list(found) == ["chat-plus", "background-agent", "data-processor"]
    assert found["chat-plus"]["slo"]["stutter"]["gap_ms"] > 0
    small = told("materialise", "chat-plus", "--scale", "0.05", "--requests", "30")
    assert small["requests"] == 30 and small["prompt_words_mean"] < 400
    assert run("presets", "data-processor").startswith("# ")
    assert "judged by p95_e2el_ms" in run("presets")


def test_the_doctor_with_a_speed_and_with_a_curve(tmp_path: Path) -> None:
    log = faults.faulty_log(tmp_path / "log", faults.FAULTS["timestamp"][0], 1)
    fast = told("doctor", str(log), "--prefill-tokens-per-s", "1000")["findings"][0]
    assert fast["fault"] == "varying_field"
    curve = tmp_path / "curve.json"
    measured = ServiceCurve("x", "", 8, 0.01, 1e-3, ((1.0, 0.01),), 100, 10)
    for written in (measured.to_json(), {"kind": "service-calibration", "curve": measured.to_json()}):
        curve.write_text(json.dumps(written))
        again = told("doctor", str(log), "--curve", str(curve))["findings"][0]
        assert again["ttft_saved_s"] == pytest.approx(fast["ttft_saved_s"])
    text = run("doctor", str(log))
    assert "a timestamp-like field (9999-99-99 99:99:99) at token" in text and "all mended" in text
    sound = faults.faulty_log(tmp_path / "sound", faults.SOUND["sound"], 1)
    assert "nothing in the prompts' layout breaks sharing" in run("doctor", str(sound))


def test_a_tokenizer_folder(chat: Path, tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model")
    found = told("describe", str(chat), "--tokenizer", str(model))
    assert found["log"]["notes"] == []
    with pytest.raises(UserError, match="expected a folder with a tokenizer"):
        run("describe", str(chat), "--tokenizer", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "missing.jsonl"), "expected a log that can be read"),
        (("materialise", "missing.jsonl"), "expected a workload's YAML, a preset"),
        (("materialise", "chat-plus", "--replay"), "expected a request log"),
        (("materialise", "chat-plus", "--speed", "2"), "with --replay only"),
        (("materialise", "chat-plus", "--scale", "0"), "--scale: expected a number above 0"),
        (("materialise", "chat-plus", "--requests", "5", "--out", "/nowhere/x.jsonl"), "can't be written: No such"),
        (("presets", "chat-minus"), "expected a preset"),
        (("doctor", "x", "--prefill-tokens-per-s", "1", "--curve", "y"), "found both"),
        (("doctor", "x", "--prefill-tokens-per-s", "0"), "a speed above 0"),
        (("doctor", "x", "--curve", "missing.json"), "--curve missing.json"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(*arguments)


def test_an_unknown_class_and_a_broken_curve(chat: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--class: expected one of chat, chat-plus"):
        run("describe", str(chat), "--class", "poem")
    broken = tmp_path / "curve.json"
    broken.write_text("[1]")
    with pytest.raises(UserError, match="expected a calibration or a service curve"):
        run("doctor", str(chat), "--curve", str(broken))


def test_its_help_needs_no_heavy_imports() -> None:
    code = (
        "import sys; import autotune.commands.workload; "
        "print(sorted({'numpy', 'scipy', 'pydantic', 'transformers', 'yaml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
