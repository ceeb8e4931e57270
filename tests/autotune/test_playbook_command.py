"""`autotune playbook`: what it prints, and that it says so where advice can't be followed."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from agents.playbook import playbook_names, playbooks_digest
from autotune.commands.playbook import playbook_group

BAD = """
name: bad
goal: none
allowed_actions: [propose]
hypotheses:
  - id: seats
    when: config.max_num_batched_tokens < 512
    try: {max_num_seqs: 512}
    expect: {request_throughput: higher}
    why: None.
verifiers: [policy]
"""


def test_list_names_every_playbook_and_the_digest() -> None:
    answer = json.loads(CliRunner().invoke(playbook_group, ["list", "--json"]).stdout)
    assert [row["name"] for row in answer["playbooks"]] == list(playbook_names())
    assert answer["digest"] == playbooks_digest()
    assert "quantization" in CliRunner().invoke(playbook_group, ["list"]).stdout


def test_show_writes_out_what_is_borrowed() -> None:
    said = CliRunner().invoke(playbook_group, ["show", "cold-start"]).stdout
    assert "share-the-prefix (for bundled, vllm)" in said
    assert "without-recordings (for vllm, by itself)" in said
    shown = json.loads(CliRunner().invoke(playbook_group, ["show", "cold-start", "--json"]).stdout)
    assert shown["hypotheses"][0]["try"] == {"enable_prefix_caching": True}


def test_check_fails_with_the_facts_where_a_config_would_not_start(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    arguments = ["check", str(path), "speculation", "--situations", "30"]
    result = CliRunner().invoke(playbook_group, [*arguments, "--json"])
    answer = json.loads(result.stdout)
    assert result.exit_code == 2
    (finding,) = [finding for finding in answer["findings"] if finding["rule"] == "start"]
    assert "--max-num-batched-tokens" in finding["sentence"]
    assert finding["facts"]["config"]["max_num_batched_tokens"] < 512
    assert [row["name"] for row in answer["checked"]] == ["bad", "speculation"]
    told = CliRunner().invoke(playbook_group, arguments)
    assert told.exit_code == 2
    assert "bad, seats (start): " in told.stdout


def test_check_is_content_with_a_playbook_that_is_sound() -> None:
    result = CliRunner().invoke(playbook_group, ["check", "quantization", "--situations", "30"])
    assert result.exit_code == 0, result.stdout
    assert "nothing wrong" in result.stdout
