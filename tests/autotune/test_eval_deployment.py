"""`autotune eval deployment` as a user runs it: scores, an own eval, and a comparison with an earlier recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from autotune.commands.eval_deployment import evaluate as evals_command
from autotune.evaluation import read_recording
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.targets.bundled import BundledTarget

OWN = """\
evals:
  - {name: greeting, scorer: regex, data: greeting.jsonl, max_tokens: 4}
"""


def evals(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(evals_command)
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def deployment(make_repo: Callable[..., Path]) -> Path:
    path = make_repo(lambda text: text.replace("max_num_seqs: 1 ", "max_num_seqs: 16") + OWN)
    (path.parent / "greeting.jsonl").write_text('{"prompt": "Say hello:", "pattern": "."}\n')
    return path


def test_a_deployment_is_scored_and_compared_with_what_was_said_before(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = tmp_path / "said.json"
    first = evals(deployment, "--out", recorded)
    assert first.exit_code == 0, first.output
    assert "own: greeting" in first.stdout and "perplexity" in first.stdout
    said = read_recording(recorded)
    assert len(said.launches) == 2

    # What was said now is what was said then, so that nothing is launched twice: only the file is altered.
    declared = load_deployment(deployment).deployment
    space = BundledTarget(Path(declared.model)).knobs
    monkeypatch.setattr("autotune.evaluation.record", lambda *_: (declared, space, said))
    same = evals(deployment, "--against", recorded, "--json")
    assert same.exit_code == 0, same.stdout
    assert {verdict["status"] for verdict in json.loads(same.stdout)["verdicts"]} == {"PASS"}

    altered: Any = orjson.loads(recorded.read_bytes())
    for launch in altered["launches"]:
        for passage in launch["passages"].values():
            passage["logprobs"] = [0.9 * logprob for logprob in passage["logprobs"]]
    recorded.write_bytes(orjson.dumps(altered))
    worse = evals(deployment, "--against", recorded, "--json")
    found = json.loads(worse.stdout)
    assert worse.exit_code == 2
    assert [verdict["rule"] for verdict in found["verdicts"] if verdict["status"] == "FAIL"] == ["quality.perplexity"]
    assert found["before"]["perplexity"] < found["scores"]["perplexity"]


def test_what_cant_be_read_is_told_before_anything_is_launched(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.targets.bundled.BundledTarget.launch", None)
    (tmp_path / "foreign.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for arguments, told in (
        (("--against", tmp_path / "foreign.json"), "autotune eval deployment --out"),
        (("--against", tmp_path / "empty"), "ledger.jsonl"),
        (("--out", tmp_path / "nowhere" / "x.json"), "folder to write to"),
    ):
        error = evals(deployment, *arguments).exception
        assert isinstance(error, UserError) and told in str(error)
    (deployment.parent / "greeting.jsonl").write_text('{"prompt": "x", "pattern": "("}\n')
    error = evals(deployment).exception
    assert isinstance(error, UserError) and "greeting.jsonl line 1" in str(error)
