"""complete() through the real SDK against a real HTTP server that misbehaves."""

from __future__ import annotations

import json
import time
from contextlib import closing
from email.utils import formatdate
from typing import Any

import pytest

from agents.complete import complete
from agents.completion import Completion
from agents.completion_error import CompletionError, CutPrompt, Malformed, Refused, Transport, Truncated
from agents.llm_endpoint import LlmEndpoint
from agents.wire import Wire
from tests.agents.scripted_openai import Reply, Scripted, ScriptedOpenAI, reply

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
MESSAGES = [{"role": "user", "content": "x" * 300}]
SOON = {"retry-after-ms": "10"}
HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/json"}


def ask_of(server: ScriptedOpenAI, *, timeout_s: float = 5.0, **asked: Any) -> Completion:
    wanted: dict[str, Any] = {"messages": MESSAGES, "schema": SCHEMA, "max_tokens": 100, **asked}
    with closing(LlmEndpoint(server.base_url, "k", timeout_s)) as endpoint:
        return complete(endpoint, model="m", **wanted)


def ask(*script: Scripted, **asked: Any) -> tuple[Completion, ScriptedOpenAI]:
    with ScriptedOpenAI(*script) as server:
        return ask_of(server, **asked), server


def fail(*script: Scripted, kind: type[CompletionError], says: str | None = None, **asked: Any) -> tuple[Any, int]:
    """The error that the script ends in, and how many HTTP requests the server saw; no script is left unplayed."""
    with ScriptedOpenAI(*script[:-1], then=script[-1]) as server:
        with pytest.raises(kind, match=says) as caught:
            ask_of(server, **asked)
        assert type(caught.value) is kind
        assert len(str(caught.value)) <= 200
        return caught.value, len(server.requests)


def message(finish_reason: str = "stop", **fields: object) -> Reply:
    return reply("", choices=[{"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": finish_reason}])


def test_a_plain_answer_is_read_and_its_usage_counted() -> None:
    answer, server = ask(reply({"a": 1}))
    assert answer.data == {"a": 1}
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.estimated) == (100, 10, False)
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert sent.body["max_tokens"] == 100
    assert not sent.body.get("stream")


@pytest.mark.parametrize(
    "content",
    [
        '```json\n{"a": 1}\n```',
        '<think>Shall I say {"a": 2}? No.</think>\n{"a": 1}',
        'Shall I say {"a": 2}? No.</think>{"a": 1}',
        'Here it is: {"a": 1}. I hope it helps.',
        '  {"a": 1}\n',
    ],
)
def test_thoughts_fences_and_prose_are_passed_over(content: str) -> None:
    assert ask(reply(content))[0].data == {"a": 1}


def test_content_in_parts_or_as_an_object_is_read() -> None:
    parts = [{"type": "text", "text": '{"a":'}, {"type": "text", "text": " 1}"}]
    assert ask(message(content=parts))[0].data == {"a": 1}
    assert ask(message(content={"a": 1}))[0].data == {"a": 1}


@pytest.mark.parametrize("arguments", ['{"a": 1}', {"a": 1}])
@pytest.mark.parametrize("content", [None, ""])
def test_a_tool_call_in_place_of_content_is_read(arguments: object, content: str | None) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "action", "arguments": arguments}}
    answer = ask(message("tool_calls", content=content, tool_calls=[call, call]))[0]
    assert answer.data == {"a": 1}
    broken = {"id": "call_1", "type": "function"}
    fail(message(content=content, tool_calls=[broken]), kind=Malformed, says="empty")


def test_a_native_tool_can_carry_the_schema() -> None:
    _, server = ask(reply({"a": 1}), wire=Wire("tools"))
    body = server.requests[0].body
    assert body["tools"][0]["function"]["parameters"] == SCHEMA
    assert "response_format" not in body


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thoughts_beside_the_answer_are_no_answer_unless_they_are_nothing_else(field: str) -> None:
    assert ask(message(content='{"a": 1}', **{field: 'Perhaps {"a": 2}.'}))[0].data == {"a": 1}
    assert ask(message(content=None, **{field: '{"a": 1}'}))[0].reasoned == field
    fail(message(content=None, **{field: 'Perhaps {"a": 2}.'}), kind=Malformed, says="only thought")


def test_of_several_objects_the_first_counts() -> None:
    assert ask(reply('{"a": 1}{"a": 2}\n{"a": 3}'))[0].data == {"a": 1}
    assert ask(reply('Of {these} I take {"a": 1}.'))[0].data == {"a": 1}
    fail(reply('{"b": {"a": 1}'), kind=Malformed, says="expected a JSON object")


def test_bytes_that_are_no_utf8_spoil_their_text_alone() -> None:
    body = json.dumps(reply('{"a": "é"}').body, ensure_ascii=False).encode("latin-1")
    assert ask(Reply(200, body, JSON))[0].data == {"a": "\ufffd"}
    fail(Reply(200, b"\xff\xfe\x00", JSON), kind=Malformed, says="expected a chat completion")


def test_half_a_surrogate_pair_is_no_text() -> None:
    fail(reply('{"a": "\\ud800"}'), kind=Malformed, says="expected a JSON object")
    fail(message(content="\ud800"), kind=Malformed, says="expected a chat completion")


@pytest.mark.parametrize(
    ("scripted", "kind", "says"),
    [
        (reply('{"a": 1'), Malformed, "expected a JSON object"),
        (reply("I would rather not."), Malformed, "expected a JSON object"),
        (reply('{"a": NaN}'), Malformed, "expected a JSON object"),
        (reply("[1, 2]"), Malformed, "expected a JSON object"),
        (reply('<think>perhaps {"a": 1} or {"a": 2}'), Malformed, "empty"),
        (reply(""), Malformed, "empty"),
        (reply(None), Malformed, "empty"),
        (reply("<think>hm</think>"), Malformed, "empty"),
        (reply("", choices=[]), Malformed, "a choice with a message"),
        (reply("", choices=None), Malformed, "a choice with a message"),
        (reply("", choices=[{"text": "{}"}]), Malformed, "a choice with a message"),
        (Reply(200, "<html><body>Sign in</body></html>", HTML), Malformed, "expected a chat completion"),
        (Reply(200, '{"choices": [', JSON), Malformed, "expected a chat completion"),
        (Reply(200, b"", JSON), Malformed, "expected a chat completion"),
        (Reply(200, {"error": {"message": "no capacity"}}, JSON), Malformed, "no capacity"),
        (reply('{"a": 1}', finish_reason="length"), Truncated, "token limit"),
        (reply('{"a": 1}', finish_reason="content_filter"), Refused, "content filter"),
        (Reply(401, {"error": {"message": "bad key"}}, JSON), Refused, "401"),
        (Reply(404, {"error": {"message": "no such model"}}, JSON), Refused, "no such model"),
    ],
)
def test_each_fault_has_its_kind_its_cost_and_one_request(
    scripted: Reply, kind: type[CompletionError], says: str
) -> None:
    error, requests = fail(scripted, kind=kind, says=says)
    assert requests == error.usage.requests == 1
    if scripted.status == 200:
        assert error.usage.prompt_tokens == 100  # as the server says, or estimated
        assert error.usage.estimated is ("prompt_tokens" not in str(scripted.body))


def test_what_a_bad_answer_said_is_kept() -> None:
    assert fail(reply("no"), kind=Malformed)[0].text == "no"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "many"}, {"prompt_tokens": -1, "completion_tokens": 2}])
def test_a_missing_usage_is_estimated_and_says_so(usage: object) -> None:
    spent = ask(reply({"a": 1}, usage=usage))[0].usage
    assert spent.estimated
    assert spent.prompt_tokens == 100
    assert spent.completion_tokens > 0


def test_cached_and_reasoning_tokens_are_told_apart() -> None:
    usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 50}
    details = {"prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 40}}
    spent = ask(reply({"a": 1}, usage={**usage, **details}))[0].usage
    assert (spent.cached_tokens, spent.reasoning_tokens, spent.total_tokens) == (64, 40, 150)
    assert ask(reply({"a": 1}, usage={**usage, "prompt_cache_hit_tokens": 32}))[0].usage.cached_tokens == 32
    boasted = {**usage, "prompt_tokens_details": {"cached_tokens": 10_000}}
    assert ask(reply({"a": 1}, usage=boasted))[0].usage.cached_tokens == 100


def test_a_prompt_that_was_cut_in_silence_is_said_aloud() -> None:
    """As Ollama does beyond its own context length."""
    long = [{"role": "user", "content": "word " * 8000}]

    def read(prompt_tokens: int) -> Reply:
        return reply({"a": 1}, usage={"prompt_tokens": prompt_tokens, "completion_tokens": 10})

    error, _ = fail(read(4096), kind=CutPrompt, says="4096 tokens of a prompt of about 13333", messages=long)
    assert (error.usage.prompt_tokens, error.usage.estimated) == (4096, False)
    assert not ask(read(8001), messages=long)[0].usage.estimated
    assert ask(read(12), messages=long)[0].usage.estimated, "a count of what wasn't cached is no count of the prompt"


def test_a_server_error_and_a_rate_limit_are_retried_and_counted() -> None:
    answer, server = ask(Reply(500, "oops", SOON), Reply(429, {}, {"Retry-After": "0.01"}), reply({"a": 1}))
    assert answer.data == {"a": 1}
    assert len(server.requests) == answer.usage.requests == 3


def test_a_retry_after_may_be_a_date() -> None:
    answer, _ = ask(Reply(429, {}, {"Retry-After": formatdate(time.time() + 1, usegmt=True)}), reply({"a": 1}))
    assert answer.usage.requests == 2


@pytest.mark.parametrize("wait", ["86400", "1e400", "a date"])
def test_a_retry_after_beyond_the_deadline_is_not_waited_for(wait: str) -> None:
    wait = formatdate(time.time() + 86400, usegmt=True) if wait == "a date" else wait
    error, requests = fail(Reply(429, {}, {"Retry-After": wait}), kind=Transport, says="429")
    assert requests == error.usage.requests == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_server_that_stays_broken_gets_three_requests_and_no_more(status: int) -> None:
    error, requests = fail(Reply(status, "oops", SOON), kind=Transport, says=str(status))
    assert requests == error.usage.requests == 3
    assert error.usage.total_tokens == 0, "what was turned away costs nothing"


def test_a_server_that_is_gone_is_a_transport_error() -> None:
    with ScriptedOpenAI() as server:
        pass
    with pytest.raises(Transport, match="connection failed"):
        ask_of(server)


@pytest.mark.parametrize(
    "scripted",
    [
        Reply(200, "{}", JSON, wait_s=60),
        Reply(200, "{}", {"Content-Length": "1000000", **JSON}),
        Reply(200, " " * 100_000, JSON, drip_s=0.02),
        Reply(500, " " * 100_000, SOON, drip_s=0.02),
    ],
    ids=["hang", "a body that never ends", "slow drip", "slow drip of an error"],
)
def test_one_deadline_holds_over_a_whole_call(scripted: Reply) -> None:
    """A time-out per read would never end the drips: each byte comes in time."""
    error, requests = fail(scripted, kind=Transport, says=r"within 0\.4 s", timeout_s=0.4)
    assert requests == error.usage.requests == (3 if scripted.status == 500 else 1)
    assert error.usage.estimated
    assert error.usage.prompt_tokens == 100 * requests, "a prompt that was read is paid for, answered or not"


def test_a_connection_that_is_reset_in_mid_answer_is_not_asked_again() -> None:
    error, requests = fail(
        Reply(200, reply({"a": 1}).body, {"Content-Length": "999", **JSON}, reset_after=40), kind=Transport
    )
    assert requests == error.usage.requests == 1
    assert error.usage.estimated


def test_an_endless_answer_is_read_so_far_and_no_further() -> None:
    error, _ = fail(Reply(200, b" " * (6 << 20), JSON), kind=Malformed, says="expected a chat completion")
    assert error.usage.estimated


def test_an_endpoint_without_schemas_is_asked_for_less_and_remembered() -> None:
    refusal = Reply(400, {"error": {"message": "response_format is not supported"}}, JSON)
    answer, server = ask(refusal, refusal, reply({"a": 1}))
    formats = [asked.body.get("response_format", {}).get("type") for asked in server.requests]
    assert formats == ["json_schema", "json_object", None]
    assert answer.wire.response_format == "none"
    assert answer.usage.requests == 3
    again, server = ask(reply({"a": 1}), wire=answer.wire)
    assert len(server.requests) == 1
    assert again.wire == answer.wire


@pytest.mark.parametrize("status", [400, 500])
def test_a_grammar_that_the_server_trips_over_is_left_out(status: int) -> None:
    """llama.cpp with a template that thinks."""
    refusal = Reply(status, {"error": {"message": "Unexpected empty grammar stack after accepting piece"}}, SOON)
    answer, server = ask(*[refusal] * (3 if status == 500 else 1), reply({"a": 1}))
    assert answer.wire.response_format == "json_object"
    assert len(server.requests) == answer.usage.requests


@pytest.mark.parametrize(
    ("refusal", "wire", "sent"),
    [
        (
            "Unsupported parameter: use 'max_completion_tokens' instead of 'max_tokens'.",
            Wire(limit_field="max_completion_tokens"),
            {"max_completion_tokens": 100},
        ),
        ("Unsupported value: 'temperature' does not support 0.", Wire(temperature=False), {"max_tokens": 100}),
        ("Unsupported value: 'messages[0].role' does not support 'system'; use 'developer'.", None, {}),
        ("System role not supported", None, {}),
    ],
)
def test_what_a_model_refuses_is_sent_in_its_other_form(refusal: str, wire: Wire | None, sent: dict[str, Any]) -> None:
    spoken = [{"role": "system", "content": "You tune."}, {"role": "user", "content": "Go."}]
    answer, server = ask(
        Reply(400, {"error": {"message": refusal}}, JSON), reply({"a": 1}), messages=spoken, temperature=0.0
    )
    body = server.requests[1].body
    roles = [said["role"] for said in body["messages"]]
    assert roles == {"developer": ["developer", "user"], "user": ["user"]}.get(
        answer.wire.system_role, ["system", "user"]
    )
    assert "You tune." in body["messages"][0]["content"]
    assert answer.wire == (wire or Wire(system_role="developer" if "developer" in refusal else "user"))
    assert {name: body[name] for name in sent} == sent
    assert ("temperature" in body) is answer.wire.temperature


def test_a_prompt_that_is_too_long_is_not_asked_again_with_less() -> None:
    message = "This model's maximum context length is 4096 tokens."
    error, requests = fail(Reply(400, {"error": {"message": message}}, JSON), kind=Refused, says="maximum context")
    assert requests == error.usage.requests == 1


def test_an_endpoint_that_refuses_everything_is_left_alone() -> None:
    error, requests = fail(Reply(400, {"error": {"message": "no"}}, JSON), kind=Refused, says="answered 400")
    assert requests == error.usage.requests == 3


def test_a_key_is_not_shown() -> None:
    with closing(LlmEndpoint(None, "secret", 1.0)) as endpoint:
        assert "secret" not in f"{endpoint!r} {vars(endpoint)}"


@pytest.mark.parametrize("key", ["sk-proj-" + "4f9aKq2Lw8Xz7Rt5Yb3N", "of-our-own-gateway"])
def test_a_key_that_comes_back_in_an_error_is_not_told(key: str) -> None:
    refusal = Reply(401, {"error": {"message": f"no account has the key {key}"}}, JSON)
    with ScriptedOpenAI(then=refusal) as server, closing(LlmEndpoint(server.base_url, key, 5.0)) as endpoint:
        with pytest.raises(Refused, match="no account has the key") as caught:
            complete(endpoint, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)
        assert key not in str(caught.value) and "[redacted: " in str(caught.value)


def test_a_key_that_a_library_repeats_is_not_told() -> None:
    key = "sk-proj-" + "4f9aKq2Lw8Xz7Rt5Yb3N\n"  # httpx shows a header that it can't send
    with ScriptedOpenAI() as server, closing(LlmEndpoint(server.base_url, key, 5.0)) as endpoint:
        with pytest.raises(Transport, match="Illegal header") as caught:
            complete(endpoint, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)
        assert key.strip() not in str(caught.value)
