"""What `tune` is told of an LLM's endpoint is what is recorded, and what a resumed run reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotune.cli import app
from autotune.harness import Options
from tools.errors import UserError

LLM = ("tune", "d.yaml", "--proposer", "llm", "--llm-url", "http://127.0.0.1:1/v1", "--llm-model", "m")


def asked_for(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Options:
    """The options that a run would be started with."""
    kept: list[Options] = []

    def keep(deployment: Path, runs: Path, options: Options) -> None:
        kept.append(options)
        raise SystemExit(0)

    monkeypatch.setattr("autotune.cli._tune", keep)
    result = CliRunner().invoke(app, [*LLM, *arguments])
    if isinstance(result.exception, UserError):
        raise result.exception
    return kept[0]


def test_the_bounds_of_an_answer_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    options = asked_for(monkeypatch, "--llm-timeout", "300", "--llm-max-tokens", "8000")
    again = Options.from_json(json.loads(json.dumps(options.to_json())))
    assert again == options and again.llm is not None
    assert (again.llm.timeout_s, again.llm.max_tokens) == (300, 8000)


def test_a_record_from_before_they_were_is_read_with_what_held_then(monkeypatch: pytest.MonkeyPatch) -> None:
    data = asked_for(monkeypatch).to_json()
    older = {**data, "llm": {name: data["llm"][name] for name in ("base_url", "model", "api_key_env", "prices")}}
    assert Options.from_json(older).to_json() == data


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--llm-timeout",), "--llm-timeout: expected seconds"), (("--llm-price", "1,2", "--llm-usd"), "US dollars")],
)
def test_an_endless_amount_is_refused(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        asked_for(monkeypatch, *arguments, "inf")
