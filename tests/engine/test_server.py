"""The HTTP face, driven from outside: the real openai client, curl, and bodies that a client would not send."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import time
from typing import Any

import aiohttp
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.conftest import Process

CHAT: Any = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def client(server: Process) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def call(server: Process, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body (JSON where it is)."""

    async def once() -> tuple[int, dict[str, str], Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        async with aiohttp.request(method, server.url + path, data=data, headers=headers) as response:
            text = await response.text()
            is_json = "json" in response.headers.get("Content-Type", "")
            return response.status, dict(response.headers), json.loads(text) if is_json else text

    return asyncio.run(once())


def metrics(server: Process) -> dict[str, float]:
    _, _, text = call(server, "GET", "/metrics")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {f"{s.name}{''.join(s.labels.get(k, '') for k in ('finished_reason', 'le'))}": s.value for s in samples}


def wait_until_idle(server: Process) -> dict[str, float]:
    deadline = time.monotonic() + 30
    while True:
        now = metrics(server)
        if not now["engine_num_requests_running"] + now["engine_num_requests_waiting"]:
            return now
        assert time.monotonic() < deadline, "requests never end"
        time.sleep(0.05)


def test_openai_chat_streams_what_it_says_whole(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=20, temperature=0)
    stream = client.chat.completions.create(
        model="tiny",
        messages=CHAT,
        max_completion_tokens=20,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert not chunks[0].choices[0].delta.content
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert whole.usage is not None and chunks[-1].usage is not None
    assert not chunks[-1].choices
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_openai_completions_stream_what_they_say_whole(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="The quick brown", max_tokens=12, temperature=0)
    chunks = list(
        client.completions.create(model="tiny", prompt="The quick brown", max_tokens=12, temperature=0, stream=True)
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_the_openai_client_sees_typed_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"limit is 511 \(max_model_len 512"):
        client.completions.create(model="tiny", prompt="word " * 2000)
    with pytest.raises(openai.NotFoundError, match="this server serves 'tiny'"):
        client.completions.create(model="other", prompt="a")


def test_curl_reads_events_as_they_come(server: Process) -> None:
    body = {"model": "tiny", "messages": CHAT, "max_tokens": 5, "stream": True, "ignore_eos": True}
    out = subprocess.run(
        ["curl", "-sN", f"{server.url}/v1/chat/completions", "--json", json.dumps(body)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    events = out.split("\n\n")
    assert events[-1] == ""
    assert events[-2] == "data: [DONE]"
    assert all(json.loads(event.removeprefix("data: "))["object"] == "chat.completion.chunk" for event in events[:-2])


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_token_ids_come_with_each_step(server: Process, path: str) -> None:
    prompt = {"messages": CHAT} if "chat" in path else {"prompt": [5, 6, 7, 8]}
    body = {"model": "tiny", **prompt, "max_tokens": 9, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, _, text = call(server, "POST", path, {**body, "stream": True, "stream_options": options})
    chunks = [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]
    bearing = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0].get("token_ids")]
    ids = [token for chunk in bearing for token in chunk["choices"][0]["token_ids"]]
    assert len(bearing) == len(ids) == 9
    assert [chunk["usage"]["completion_tokens"] for chunk in bearing] == list(range(1, 10))
    _, _, whole = call(server, "POST", path, body)
    assert whole["choices"][0]["token_ids"] == ids
    place, whole_place = (chunks[0], whole) if "chat" in path else (chunks[0]["choices"][0], whole["choices"][0])
    assert len(place["prompt_token_ids"]) == chunks[-1]["usage"]["prompt_tokens"]
    assert whole_place["prompt_token_ids"] == place["prompt_token_ids"]


def test_cached_tokens_are_told(server: Process) -> None:
    body = {"model": "tiny", "prompt": list(range(100, 164)), "max_tokens": 1}
    wait_until_idle(server)
    assert call(server, "POST", "/reset_prefix_cache")[0] == 200
    counts = [call(server, "POST", "/v1/completions", body)[2]["usage"] for _ in range(2)]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in counts] == [0, 48]
    assert counts[0]["prompt_tokens"] == 64


def test_metrics_count_what_clients_were_told(server: Process) -> None:
    before = wait_until_idle(server)
    body = {"model": "tiny", "prompt": list(range(200, 250)), "max_tokens": 7, "ignore_eos": True}
    usage = call(server, "POST", "/v1/completions", body)[2]["usage"]
    after = wait_until_idle(server)
    grown = {name: after[name] - before[name] for name in after}
    assert grown["engine_prompt_tokens_total"] == usage["prompt_tokens"] == 50
    assert grown["engine_generation_tokens_total"] == usage["completion_tokens"] == 7
    assert grown["engine_prefix_cache_queries_total"] == 50
    assert grown["engine_request_success_totallength"] == 1
    assert grown["engine_time_to_first_token_seconds_count"] == 1
    assert grown["engine_inter_token_latency_seconds_count"] == 6
    assert grown["engine_e2e_request_latency_seconds_count"] == 1
    assert grown["engine_request_queue_time_seconds_count"] == 1
    assert grown["engine_iteration_tokens_total_sum"] == 56


def test_the_server_says_exactly_what_it_serves(server: Process) -> None:
    info = call(server, "GET", "/server_info")[2]
    canonical = json.dumps(info["config"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert info["config_hash"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert info["config"]["max_model_len"] == 512
    assert info["requested"]["max_model_len"] == 0
    assert info["pid"] == server.popen.pid
    assert info["kv_cache"]["num_blocks"] * info["kv_cache"]["block_size"] == info["config"]["kv_cache_tokens"]
    text = call(server, "GET", "/metrics")[2]
    config_info = f'engine_config_info{{config_hash="{info["config_hash"]}",model_digest="{info["model_digest"]}"}} 1.0'
    assert config_info in text


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{not json", 400, "not JSON"),
        (b"[1, 2]", 400, "body"),
        ({"model": "tiny"}, 400, "prompt is missing"),
        ({"model": "tiny", "prompt": "a", "max_tokens": "5"}, 400, "max_tokens"),
        ({"model": "tiny", "prompt": "a", "max_tokens": 0}, 400, "max_tokens: expected 1 or more, found 0"),
        ({"model": "tiny", "prompt": "a", "temperature": 3}, 400, "temperature: expected 0 to 2"),
        ({"model": "tiny", "prompt": "a", "top_p": 0}, 400, "top_p"),
        ({"model": "tiny", "prompt": "a", "stop": [1]}, 400, "stop"),
        ({"model": "tiny", "prompt": "a", "n": 0}, 400, "n: "),
        ({"model": "tiny", "prompt": "a", "n": 2, "best_of": 3}, 400, "best_of: expected n (2), found 3"),
        ({"model": "tiny", "prompt": "a", "suffix": "b"}, 400, "suffix is not supported"),
        ({"model": "tiny", "prompt": "a", "logprobs": 21}, 400, "logprobs: expected 0 to 20, found 21"),
        ({"model": "tiny", "prompt": "a", "logit_bias": {"512": 1}}, 400, "the model knows 0 to 511"),
        ({"model": "tiny", "prompt": "a", "logit_bias": {"five": 1}}, 400, "logit_bias"),
        ({"model": "tiny", "prompt": "a", "min_tokens": 17}, 400, "min_tokens: expected 0 to max_tokens"),
        ({"model": "tiny", "prompt": "a", "deadline_s": 0}, 400, "deadline_s"),
        ({"model": "tiny", "prompt": "a", "guided_regex": "(a"}, 400, "unclosed group"),
        ({"model": "tiny", "prompt": "a", "guided_regex": "a", "guided_choice": ["a"]}, 400, "several grammars"),
        ({"model": "tiny", "prompt": "a", "guided_regex": "a", "min_tokens": 1}, 400, "min_tokens: a grammar"),
        ({"model": "tiny", "prompt": "a", "top_kk": 2}, 400, "unknown field top_kk"),
        ({"model": "tiny", "prompt": ["a", []]}, 400, "prompt"),
        ({"model": "tiny", "prompt": ["a", ""]}, 400, "prompt is empty"),
        ({"model": "tiny", "prompt": [5, 512]}, 400, "0 to 511"),
        ({"model": "tiny", "prompt": []}, 400, "prompt is empty"),
        ({"model": "tiny", "prompt": "a", "stream_options": {"include_usage": True}}, 400, "only allowed with stream"),
        ({"model": "tiny", "prompt": "a", "max_tokens": 600}, 400, "Ask for at most 511"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(server: Process, body: Any, status: int, sentence: str) -> None:
    got, _, answer = call(server, "POST", "/v1/completions", body)
    assert (got, answer["error"]["type"]) == (status, "invalid_request_error")
    assert sentence in answer["error"]["message"]


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "messages"),
        ([{"role": "wizard", "content": "a"}], "messages.0.role"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages.0.content"),
    ],
)
def test_messages_the_engine_cannot_read_are_refused(server: Process, messages: Any, sentence: str) -> None:
    status, _, answer = call(server, "POST", "/v1/chat/completions", {"model": "tiny", "messages": messages})
    assert status == 400
    assert sentence in answer["error"]["message"]


def test_fields_that_ask_for_nothing_are_accepted(server: Process) -> None:
    neutral = {"user": "u", "store": False, "metadata": {"a": "b"}, "service_tier": "auto", "n": 1, "logprobs": None}
    neutral |= {"presence_penalty": 0, "frequency_penalty": 0.0, "response_format": {"type": "text"}, "tools": None}
    parts = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ]
    body = {"model": "tiny", "messages": parts, "max_tokens": 2, **neutral}
    assert call(server, "POST", "/v1/chat/completions", body)[0] == 200


def test_an_unknown_path_and_a_wrong_method_are_json_too(server: Process) -> None:
    assert call(server, "GET", "/v1/nothing")[2]["error"]["message"].endswith("Not Found")
    assert call(server, "GET", "/v1/completions")[0] == 405


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_what_it_held(server: Process, stream: bool) -> None:
    before = wait_until_idle(server)
    body = {"model": "tiny", "prompt": [5] * 20, "max_tokens": 480, "ignore_eos": True, "stream": stream}

    async def leave_early() -> None:
        async with aiohttp.ClientSession() as session:
            request = asyncio.ensure_future(session.post(f"{server.url}/v1/completions", json=body))
            if stream:
                await (await request).content.readline()
            else:
                await asyncio.sleep(0.1)
                request.cancel()

    asyncio.run(leave_early())
    after = wait_until_idle(server)
    assert after["engine_request_success_totalabort"] - before["engine_request_success_totalabort"] == 1
    assert after["engine_kv_cache_usage_perc"] == 0
    assert after["engine_generation_tokens_total"] - before["engine_generation_tokens_total"] < 480
