"""The doctor: what it finds in an install, and what it finds out about an endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agents.llm_settings import LlmSettings
from autotune.commands.doctor import doctor
from autotune.doctor import Check, LlmProfile, check_install, probe_endpoint, worst
from autotune.privacy import ASKED_FOR, keep_private
from tests.agents.scripted_openai import Reply, ScriptedOpenAI, reply

GOOD = {"kind": "finish", "trials": 3}
Answer = Callable[[Mapping[str, Any]], Reply]


def found(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_this_install_is_sound_and_the_worst_check_counts(tmp_path: Path) -> None:
    spared = {"HTTPS_PROXY": "http://10.0.0.1:3128", "no_proxy": "localhost,127.0.0.1"}
    checks = check_install(spared, tmp_path)
    names = ["python", "packages", "import names", "machine", "git", "model cache", "disk", "tracing", "proxy"]
    assert [check.name for check in checks] == names
    assert {found(checks, name).status for name in ("import names", "packages", "git", "proxy")} == {"ok"}
    assert worst([Check("a", "ok", ""), Check("b", "fail", "", "mend it"), Check("c", "warn", "")]) == "fail"


def test_a_variable_that_gets_in_the_way_is_named_with_what_to_do(tmp_path: Path) -> None:
    environment = {"LANGSMITH_TRACING": "true", "LANGCHAIN_API_KEY": "secret", "https_proxy": "http://10.0.0.1:3128"}
    checks = check_install({**environment, "OMP_NUM_THREADS": "100000"}, tmp_path)
    for name, says in (("tracing", "LANGCHAIN_API_KEY"), ("proxy", "NO_PROXY"), ("machine", "core")):
        check = found(checks, name)
        assert check.status == "warn" and check.do
        assert says in check.found and "secret" not in check.found + check.do


def test_a_name_that_another_distribution_ships_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As openai-agents does with `agents`: installed here as a real distribution, only smaller."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("")
    info = tmp_path / "openai_agents-0.24.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openai-agents\nVersion: 0.24.0\n")
    (info / "RECORD").write_text("agents/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    check = found(check_install({}, tmp_path), "import names")
    assert check.status == "warn" and "openai-agents" in check.found and "pipx" in check.do


def probe(answer: Answer) -> tuple[LlmProfile | None, list[Check]]:
    with ScriptedOpenAI(then=answer) as server:
        return probe_endpoint(LlmSettings(model="m", base_url=server.base_url, timeout_s=5))


def usage_of(body: Mapping[str, Any]) -> dict[str, Any]:
    chars = sum(len(message["content"]) for message in body["messages"])
    return {"prompt_tokens": chars // 3, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": chars // 4}}


def test_a_full_endpoint_has_all_of_it() -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if "tools" in body and "parallel_tool_calls" not in body:
            call = {"function": {"name": "action", "arguments": GOOD}}
            choices = [{"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]
            return reply("", choices=choices, usage=usage_of(body))
        return reply(GOOD, usage=usage_of(body))

    profile, checks = probe(answer)
    assert profile == LlmProfile(
        structured=("json_schema", "tools", "json_object", "none"),
        limit_field="max_tokens",
        system_role="system",
        temperature=True,
        seed=True,
        tools=True,
        parallel_tool_calls=True,
        reasoning_field="",
        usage=True,
        cached_tokens=True,
        context_tokens=None,
    )
    assert worst(checks) == "ok"


def test_a_reasoning_endpoint_that_takes_little_is_known_for_it() -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        for name, refused in (
            ("max_tokens", "use max_completion_tokens"),
            ("temperature", "temperature is not supported"),
            ("seed", "seed is not supported"),
            ("tools", "tools are not supported"),
            ("response_format", "response_format is not supported"),
        ):
            if name in body:
                return Reply(400, {"error": {"message": refused}})
        thought = {"role": "assistant", "content": json.dumps(GOOD), "reasoning_content": "hm"}
        return reply("", choices=[{"index": 0, "message": thought, "finish_reason": "stop"}], usage=None)

    profile, checks = probe(answer)
    assert profile is not None
    assert (profile.structured, profile.limit_field, profile.temperature) == (("none",), "max_completion_tokens", False)
    assert (profile.seed, profile.tools, profile.parallel_tool_calls) == (False, False, False)
    assert (profile.reasoning_field, profile.usage, profile.cached_tokens) == ("reasoning_content", False, False)
    assert [check.status for check in checks] == ["ok", "warn", "ok", "warn"]


def test_an_endpoint_that_cuts_a_long_prompt_fails_the_turns_prompt() -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        usage = usage_of(body)
        return reply(GOOD, usage={**usage, "prompt_tokens": min(512, usage["prompt_tokens"])})

    check = found(probe(answer)[1], "a turn's prompt")
    assert check.status == "fail" and "it cut the prompt" in check.found and "num_ctx" in check.do


def test_an_endpoint_that_is_not_there_fails_and_the_command_says_so() -> None:
    app = typer.Typer()
    app.command()(doctor)
    with ScriptedOpenAI(then=Reply(404, {"error": {"message": "no such model"}})) as server:
        done = CliRunner().invoke(app, ["--llm-url", server.base_url, "--llm-model", "m", "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["status"], told["llm"]) == (1, "fail", None)
    assert "no such model" in told["checks"][-1]["found"]


def test_what_was_taken_out_of_the_environment_is_told_of(tmp_path: Path) -> None:
    """In a process of its own, since it is taken out before anything else is imported."""
    code = "from autotune.doctor import check_install; print([check.to_json() for check in check_install()])"
    given = {**os.environ, "LANGSMITH_TRACING": "true", "LANGCHAIN_API_KEY": "secret"}
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, env=given, timeout=60, check=True).stdout
    assert "LANGSMITH_TRACING, LANGCHAIN_API_KEY were set, and are taken out" in told and "secret" not in told
    asked = found(check_install({"LANGSMITH_TRACING": "true", ASKED_FOR: "true"}, tmp_path, ()), "tracing")
    assert asked.status == "warn" and ASKED_FOR in asked.found
    assert found(check_install({}, tmp_path, ()), "tracing").status == "ok"


def test_a_tracer_that_is_asked_for_turns_no_telemetry_on() -> None:
    environment = {ASKED_FOR: "true", "LANGSMITH_TRACING": "true"}
    keep_private(environment)
    assert environment["LANGSMITH_TRACING"] == "true"
    assert {environment[name] for name in ("DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS")} == {"1"}


def test_a_model_that_thinks_for_long_has_a_turns_room() -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        enough = body["max_tokens"] >= LlmSettings(model="m").max_tokens
        return reply(GOOD, usage=usage_of(body)) if enough else reply("", finish_reason="length")

    profile, _ = probe(answer)
    assert profile is not None and "json_schema" in profile.structured
