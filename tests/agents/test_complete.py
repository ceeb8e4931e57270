"""complete() through the real SDK against a real HTTP server that misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from agents.complete import Completion, Malformed, Refused, Transport, Truncated, Wire, complete
from tests.agents.scripted_openai import Reply, Scripted, ScriptedOpenAI, reply

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
MESSAGES = [{"role": "user", "content": "x" * 400}]
SOON = {"retry-after-ms": "10"}


@contextmanager
def client_of(server: ScriptedOpenAI, **settings: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=server.base_url, timeout=5, max_retries=2, **settings) as client:
        yield client


def ask(*script: Scripted, wire: Wire | None = None) -> tuple[Completion, ScriptedOpenAI]:
    with ScriptedOpenAI(*script) as server, client_of(server) as client:
        answer = complete(client, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100, wire=wire)
    return answer, server


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
    def with_content(content: object) -> Reply:
        return reply("", choices=[{"index": 0, "message": {"content": content}, "finish_reason": "stop"}])

    assert ask(with_content([{"type": "text", "text": '{"a":'}, {"type": "text", "text": " 1}"}]))[0].data == {"a": 1}
    assert ask(with_content({"a": 1}))[0].data == {"a": 1}


HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/json"}


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
def test_each_fault_has_its_kind_and_one_request(scripted: Reply, kind: type[Exception], says: str) -> None:
    with ScriptedOpenAI(scripted) as server, client_of(server) as client:
        with pytest.raises(kind, match=says) as caught:
            complete(client, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)
        assert len(server.requests) == 1
    assert len(str(caught.value)) <= 200


def test_what_a_bad_answer_cost_is_counted() -> None:
    with pytest.raises(Malformed) as caught:
        ask(reply("no"))
    assert (caught.value.usage.prompt_tokens, caught.value.usage.calls) == (100, 1)
    assert caught.value.text == "no"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "many"}])
def test_a_missing_usage_is_estimated_and_says_so(usage: object) -> None:
    spent = ask(reply({"a": 1}, usage=usage))[0].usage
    assert spent.estimated
    assert spent.prompt_tokens == 100
    assert spent.completion_tokens > 0


def test_a_server_error_and_a_rate_limit_are_retried_by_the_sdk() -> None:
    answer, server = ask(Reply(500, "oops", SOON), Reply(429, {}, {"Retry-After": "0.01"}), reply({"a": 1}))
    assert answer.data == {"a": 1}
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_stays_broken_gets_three_requests_and_no_more(status: int) -> None:
    with ScriptedOpenAI(then=Reply(status, "oops", SOON)) as server, client_of(server) as client:
        with pytest.raises(Transport, match=str(status)):
            complete(client, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)
        assert len(server.requests) == 3


def test_a_server_that_is_gone_is_a_transport_error() -> None:
    with ScriptedOpenAI() as server:
        base_url = server.base_url
    with openai.OpenAI(api_key="k", base_url=base_url, max_retries=0) as client, pytest.raises(Transport):
        complete(client, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)


def test_an_endpoint_without_schemas_is_asked_for_less_and_remembered() -> None:
    refusal = Reply(400, {"error": {"message": "response_format is not supported"}}, JSON)
    answer, server = ask(refusal, refusal, reply({"a": 1}))
    formats = [asked.body.get("response_format", {}).get("type") for asked in server.requests]
    assert formats == ["json_schema", "json_object", None]
    assert answer.wire.response_format == "none"
    again, server = ask(reply({"a": 1}), wire=answer.wire)
    assert len(server.requests) == 1
    assert again.wire == answer.wire


def test_a_reasoning_model_gets_the_limit_under_its_other_name() -> None:
    refusal = {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead of 'max_tokens'."}}
    answer, server = ask(Reply(400, refusal, JSON), reply({"a": 1}))
    assert server.requests[1].body["max_completion_tokens"] == 100
    assert "max_tokens" not in server.requests[1].body
    assert answer.wire.response_format == "json_schema"


def test_an_endpoint_that_refuses_everything_is_left_alone() -> None:
    with ScriptedOpenAI(then=Reply(400, {"error": {"message": "no"}}, JSON)) as server, client_of(server) as client:
        with pytest.raises(Refused, match="refused the request"):
            complete(client, model="m", messages=MESSAGES, schema=SCHEMA, max_tokens=100)
        assert len(server.requests) == 3
