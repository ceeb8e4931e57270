"""`autotune compare` on real servers: small ones with known delays, started by a command, one of them broken."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autotune.cli import app
from autotune.commands.compare import NOTHING_COUNTS
from tests.autotune.conftest import ENVIRONMENT
from tools.errors import UserError

SERVER = """\
import argparse, sys
from tools.measure import mock

class Connection(mock._Connection):
    def on_message_complete(self):
        if self._url == b"/metrics":
            self._transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
        else:
            super().on_message_complete()

mock._Connection = Connection
parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--cache-tokens", type=int)
_, rest = parser.parse_known_args()
sys.argv[1:] = rest
mock.main()
"""
"The client's own mock, which counts nothing, as an engine with a model and a KV cache."

DEPLOYMENT = """\
name: {name}
model: model.bin
target:
  kind: command
  command: [{python}, "{folder}/server.py", --model, "{{model}}", --host, "{{host}}", --port, "{{port}}", "{{knobs}}"]
  served_name: mock
  reports: command_line
  reset: none
  kv_cache: {{knob: cache_tokens, bytes_each: {bytes_each}}}
  knobs:
    - {{name: ttft_ms, meaning: To the first token., flag: --ttft-ms, kind: int, default: 50, low: 0, high: 9999}}
    - {{name: cache_tokens, meaning: Its size., flag: --cache-tokens, kind: int, default: 16, low: 1, high: 99999}}
    - {{name: speed, meaning: No such flag., flag: --speed, kind: int, default: 1, low: 1, high: 9}}
config: {config}
workload:
  requests: 8
  prompt_tokens: 12
  output_tokens: 3
  arrivals: {{kind: constant, rate_rps: 40}}
slo: {{ttft_ms: {{p95: 5000}}}}
"""


@pytest.fixture
def entered(tmp_path: Path) -> list[str]:
    """Deployments of a quick server, one that takes six times as long to the first token, and one that can't start."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "model.bin").write_text("weights")
    configs = {
        "quick": "{ttft_ms: 20, cache_tokens: 4096}",
        "slow": "{ttft_ms: 120, cache_tokens: 9000}",
        "broken": "{ttft_ms: 20, cache_tokens: 4096, speed: 2}",
    }
    for name, config in configs.items():
        python, bytes_each = sys.executable, 3000 if name == "slow" else 1024
        text = DEPLOYMENT.format(name=name, python=python, folder=tmp_path, bytes_each=bytes_each, config=config)
        (tmp_path / f"{name}.yaml").write_text(text)
    return [f"{name}.yaml" for name in configs]


def trials(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines[1:] if line.endswith(b"\n")]


def test_stopped_it_shows_what_is_there_and_goes_on_where_it_was(
    entered: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--out", "c.json", "--page", "c.html", "--picture", "c.svg")
    asked = ["compare", *entered, "--rounds", "2", *files, "--no-floor", "--json"]
    stopped = subprocess.Popen(
        [sys.executable, "-m", "autotune", *asked],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        deadline = time.monotonic() + 120
        while len(trials(tmp_path / "c.json")) < 2 and stopped.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        stopped.send_signal(signal.SIGINT)
        stdout, stderr = stopped.communicate(timeout=60)
    finally:
        stopped.kill()
        stopped.wait()
    assert stopped.returncode == 130, stderr
    shown, kept = json.loads(stdout), trials(tmp_path / "c.json")
    assert shown["ended_early"] == "interrupted" and len(shown["trials"]) == len(kept) < 5
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "server.py")], capture_output=True, check=False)
    assert left.stdout == b""

    monkeypatch.chdir(tmp_path)
    assert app(asked, standalone_mode=False) == NOTHING_COUNTS  # the broken one's
    shown, whole = json.loads(capsys.readouterr().out), trials(tmp_path / "c.json")
    assert whole[: len(kept)] == kept  # nothing is measured twice
    launched = [(row["round"], row["contender"]) for row in whole]
    assert launched == [
        (0, "quick"),
        (0, "slow"),
        (0, "broken"),
        (1, "slow"),
        (1, "quick"),
    ]  # (1, "broken") is hopeless
    for number in range(2):
        measured = [row["measurement"] for row in whole if row["round"] == number and row["measurement"]]
        assert len({measurement["workload_digest"] for measurement in measured}) == 1
    # Of 4 MiB the slow one holds 1398 steps of 3000 bytes, and the others don't get more than that.
    assert [row["config"]["cache_tokens"] for row in shown["contenders"]] == [4095, 1398, 4095]
    assert [row["kv_bytes"] for row in shown["contenders"]] == [4095 * 1024, 1398 * 3000, 4095 * 1024]
    broken = [row for row in shown["trials"] if row["contender"] == "broken"]
    assert [row["failure"]["kind"] for row in broken] == ["bad_config"]
    ratio = shown["metrics"]["p50_ttft_ms"]["contenders"]["slow"]["to_first"]
    assert ratio["rounds"] == 2 and ratio["ratio"] > 1 and ratio["low"] <= ratio["ratio"] <= ratio["high"]
    assert any("can't be held against quick: no trial of broken counts" in line for line in shown["conclusions"])
    assert "request_goodput" in shown["metrics"]
    assert "<svg" in (tmp_path / "c.html").read_text() and (tmp_path / "c.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--kv", "lots"), "expected a size like 512MiB"),
        (("--budget", "soon"), "expected a duration like 90s"),
        (("--picture", "c.png"), "expected a name that ends in .svg"),
        (("--out", "nowhere/c.json"), "expected the name of a file in a folder that is there"),
        (("--workload", "nosuch.yaml"), "nosuch.yaml"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_started(
    entered: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=re.escape(says)):
        app(["compare", *entered, *flags, "--no-floor"], standalone_mode=False)
    assert sorted(tmp_path.iterdir()) == before
