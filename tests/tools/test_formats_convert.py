"""`autotune convert`: any of the formats in, any of the formats out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from autotune.commands.convert import convert
from tools.errors import UserError
from tools.formats import read

FILES = Path(__file__).parent / "files"

app = typer.Typer()
app.command()(convert)


def run(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.parametrize("name", ["vllm_detailed.json", "guidellm.json", "profile_export.jsonl"])
def test_requests_go_from_every_tool_into_every_format(tmp_path: Path, name: str) -> None:
    source = FILES / name
    summary = json.loads(run(source, "--to", "summary", "--json"))
    assert summary["ours"] == read(source).ours() and summary["theirs"]
    vllm = json.loads(run(source, "--to", "vllm", "--json"))
    assert vllm["completed"] == 6 and len(vllm["ttfts"]) == 6
    assert "ttfts" not in json.loads(run(source, "--to", "vllm", "--no-detailed", "--json"))
    run(source, "--to", "llm-d", "--out", tmp_path / "report.yaml")
    run(source, "--to", "llm-d", "--out", tmp_path / "report.json")
    report = yaml.safe_load((tmp_path / "report.yaml").read_text())
    assert report == json.loads((tmp_path / "report.json").read_text()) and report["version"] == "0.2.1"
    told = json.loads(run(source, "--to", "records", "--out", tmp_path / "raw.jsonl.gz", "--json"))
    assert told["to"] == "records" and told["notes"] == list(read(source).notes)
    assert read(tmp_path / "raw.jsonl.gz").ours() == read(source).ours()


def test_records_can_be_converted_again(tmp_path: Path) -> None:
    run(FILES / "guidellm.json", "--to", "records", "--out", tmp_path / "raw.jsonl")
    direct = json.loads(run(FILES / "guidellm.json", "--to", "vllm", "--json"))
    assert json.loads(run(tmp_path / "raw.jsonl", "--to", "vllm", "--json")) == direct


def test_aggregates_go_into_summary_and_llmd_and_nothing_else(tmp_path: Path) -> None:
    source = FILES / "vllm_flat.json"
    assert json.loads(run(source, "--to", "summary", "--json"))["ours"] == {}
    report = json.loads(run(source, "--to", "llm-d", "--json"))
    assert "vllm's definitions" in report["run"]["description"]
    for to in ("vllm", "records"):
        with pytest.raises(UserError, match="found aggregates"):
            run(source, "--to", to, "--out", tmp_path / "x.jsonl")
    assert not list(tmp_path.iterdir())


def test_wrong_flags_are_refused_with_what_to_do() -> None:
    with pytest.raises(UserError, match="expected vllm, llm-d, records, summary, found 'csv'"):
        run(FILES / "vllm_flat.json", "--to", "csv")
    with pytest.raises(UserError, match="expected --out FILE"):
        run(FILES / "vllm_detailed.json", "--to", "records")
    with pytest.raises(UserError, match="expected a guidellm report"):
        run(FILES / "vllm_flat.json", "--to", "summary", "--part", 3)
