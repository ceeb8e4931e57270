"""What must not get in, and what everyone may see: keys, request ids, strange bodies, deadlines, the request log."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.engine.conftest import Launch, Process, command, free_port

JSON = {"Content-Type": "application/json"}
BODY = {"model": "tiny", "prompt": [5] * 8, "max_tokens": 3}
LONG = BODY | {"max_tokens": 480, "ignore_eos": True}


def call(
    server: Process, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, str]:
    async def once() -> tuple[int, Any, str]:
        content = data if isinstance(data, bytes | None) else json.dumps(data).encode()
        given = JSON if headers is None else headers
        async with aiohttp.request(method, server.url + path, data=content, headers=given) as response:
            return response.status, response.headers, await response.text()

    return asyncio.run(once())


STRANGE: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"null", 400),
    (b"[]", 400),
    (b'"text"', 400),
    (b"\xff\xfe{}", 400),
    (b'{"model": "tiny", "prompt": "\xff"}', 400),
    (b'{"model": "tiny", "prompt": "\\ud800"}', 400),
    (b'{"model": "\\ud800", "prompt": "a"}', 400),
    (b'{"model": "tiny", "prompt": "a\\u0000b", "max_tokens": 1}', 200),
    (b'{"model": "tiny", "prompt": "a", "temperature": NaN}', 400),
    (b'{"model": "tiny", "prompt": "a", "temperature": Infinity}', 400),
    (b'{"model": "tiny", "prompt": "a", "temperature": 1e999}', 400),
    (b'{"model": "tiny", "prompt": "a", "top_p": -0.0}', 400),
    (b'{"model": "tiny", "prompt": "a", "max_tokens": 123456789012345678901234567890}', 400),
    (b'{"model": "tiny", "prompt": "a", "seed": 18446744073709551615}', 400),
    (b'{"model": "tiny", "prompt": "a", "n": 9223372036854775807}', 400),
    (b'{"model": "tiny", "prompt": "a", "top_k": 9223372036854775807}', 400),
    (b'{"model": "tiny", "prompt": "a", "priority": 9223372036854775807}', 400),
    (b'{"model": "tiny", "prompt": "a", "stop_token_ids": [9223372036854775807]}', 400),
    (b'{"model": "tiny", "prompt": [9223372036854775807]}', 400),
    (b'{"model": "tiny", "prompt": [-1]}', 400),
    (b'{"model": "tiny", "prompt": [1, "a"]}', 400),
    (b'{"model": "tiny", "prompt": [[1], "a"]}', 400),
    (b'{"model": "tiny", "prompt": [true]}', 400),
    (b'{"model": "tiny", "prompt": {"a": 1}}', 400),
    (b'{"model": "tiny", "prompt": "a", "logit_bias": {"99999999999999999999": 1}}', 400),
    (b'{"model": "tiny", "prompt": "a", "stop": [""]}', 400),
    (b'{"model": "tiny", "prompt": "a", "guided_json": ' + b'{"items":' * 900 + b"{}" + b"}" * 900 + b"}", 400),
    (
        b'{"model": "tiny", "prompt": "a", "guided_json": '
        + b'{"items":' * 97
        + b"{}"
        + b"}" * 97
        + b', "max_tokens": 1}',
        200,
    ),
    (b'{"model": "tiny", "prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    (b'{"model": "tiny", "prompt": "a", "metadata": ' + b"[" * 900 + b"]" * 900 + b', "max_tokens": 1}', 400),
]


@pytest.mark.parametrize(("body", "status"), STRANGE, ids=[str(body[:90]) for body, _ in STRANGE])
def test_strange_bodies_are_refused_in_openai_s_form(server: Process, body: bytes, status: int) -> None:
    found, _, text = call(server, "POST", "/v1/completions", body)
    assert found == status, text
    if status != 200:
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    assert call(server, "GET", "/health", headers={})[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_only_json_is_read(server: Process, kind: str) -> None:
    """A page in a browser can send these to a server on localhost without being asked."""
    status, _, text = call(server, "POST", "/v1/completions", BODY, {"Content-Type": kind})
    assert (status, json.loads(text)["error"]["code"]) == (415, "unsupported_media_type")
    assert call(server, "POST", "/v1/completions", BODY, {"Content-Type": "application/json; charset=utf-8"})[0] == 200


def test_other_refusals_have_the_same_form(server: Process) -> None:
    status, headers, text = call(server, "DELETE", "/v1/completions")
    assert (status, headers["Allow"]) == (405, "POST")
    assert json.loads(text)["error"]["code"] == "http"
    assert call(server, "GET", "/v1/models/other")[0] == 404
    assert call(server, "GET", "/v1/models/tiny")[0] == 200
    status, _, text = call(server, "POST", "/v1/completions", b" " * (65 << 20))
    assert (status, json.loads(text)["error"]["type"]) == (413, "invalid_request_error")


@pytest.mark.parametrize("depth", [20, 95])
def test_tools_may_be_nested_deeply(server: Process, depth: int) -> None:
    parameters: Any = {"type": "object", "properties": {}}
    for _ in range((depth - 5) // 2):
        parameters = {"type": "object", "properties": {"a": parameters}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "tools": tools, "max_tokens": 1}
    for choice in ("auto", "required"):
        status, _, text = call(server, "POST", "/v1/chat/completions", chat | {"tool_choice": choice})
        assert status in (200, 400), text
        assert status == 200 or "the prompt has" in text


def test_a_request_keeps_its_id(server: Process) -> None:
    for path, body in (("/v1/completions", BODY), ("/v1/completions", BODY | {"stream": True})):
        _, headers, text = call(server, "POST", path, body, JSON | {"X-Request-Id": "mine-1"})
        assert headers["X-Request-Id"] == "mine-1"
        assert '"id":"cmpl-mine-1"' in text
    _, headers, text = call(server, "POST", "/v1/completions", BODY | {"request_id": "body-1"})
    assert (headers["X-Request-Id"], json.loads(text)["id"]) == ("body-1", "cmpl-body-1")
    for strange in ("", "x" * 300, "a b"):
        _, headers, text = call(server, "POST", "/v1/completions", BODY, JSON | {"X-Request-Id": strange})
        assert json.loads(text)["id"] == f"cmpl-{headers['X-Request-Id']}"
        assert headers["X-Request-Id"] != strange
    assert call(server, "GET", "/nowhere", headers={"X-Request-Id": "n"})[1]["X-Request-Id"] == "n"


def test_two_requests_of_one_id_are_two(server: Process) -> None:
    async def story() -> list[Any]:
        async with aiohttp.ClientSession() as session:

            async def ask(prompt: list[int]) -> Any:
                body = BODY | {"prompt": prompt, "max_tokens": 30, "temperature": 0}
                async with session.post(
                    f"{server.url}/v1/completions", json=body, headers={"X-Request-Id": "x"}
                ) as got:
                    return (await got.json())["choices"][0]["text"]

            alone = [await ask([5, 6]), await ask([70, 80, 90])]
            return [alone, await asyncio.gather(ask([5, 6]), ask([70, 80, 90]))]

    alone, together = asyncio.run(story())
    assert alone == together


def test_small_things_are_told(server: Process) -> None:
    def get(path: str, body: Any = None) -> Any:
        return json.loads(call(server, "POST" if body else "GET", path, body)[2])

    told = get("/tokenize", {"prompt": "The quick", "return_token_strs": True})
    assert (told["count"], told["max_model_len"], told["token_strs"]) == (2, 512, ["The", "Ġquick"])
    assert get("/detokenize", {"model": "tiny", "tokens": told["tokens"]}) == {"prompt": "The quick"}
    assert get("/tokenizer_info")["eos_token"] == "<|im_end|>"
    assert "messages" in get("/tokenizer_info")["chat_template"]
    long = get("/tokenize", {"prompt": "The quick " * 3000})["tokens"]
    assert long[:4] == get("/tokenize", {"prompt": "The quick The"})["tokens"] + long[3:4]
    assert len(long) >= 6000
    assert get("/version")["version"]
    assert get("/load") == {"server_load": 0}
    assert call(server, "GET", "/ping", headers={})[0] == 200


def test_a_key_opens_all_but_the_probes(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_API_KEY", "schlüssel")
    server = launch()
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "schlüssel"},
        {"Authorization": "Basic x"},
    ):
        status, got, text = call(server, "POST", "/v1/completions", BODY, JSON | headers)
        assert (status, got["WWW-Authenticate"]) == (401, "Bearer")
        assert json.loads(text)["error"]["code"] == "invalid_api_key"
    assert call(server, "GET", "/v1/nowhere", headers={})[0] == 401
    for path in ("/health", "/ping", "/metrics"):
        assert call(server, "GET", path, headers={})[0] == 200
    assert call(server, "POST", "/v1/completions", BODY, JSON | {"Authorization": "Bearer schlüssel"})[0] == 200
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0).models.list()


def test_a_deadline_ends_what_takes_too_long(server: Process) -> None:
    body = LONG | {"deadline_s": 0.05}
    status, _, text = call(server, "POST", "/v1/completions", body)
    assert (status, json.loads(text)["error"]["code"]) == (504, "deadline_exceeded")
    status, _, text = call(server, "POST", "/v1/completions", body | {"stream": True})
    assert status == 200
    *_, error, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    given: Any = {"model": "tiny", "prompt": [5] * 8, "max_tokens": 480, "stream": True}
    with pytest.raises(openai.APIError, match="deadline"):
        list(client.completions.create(**given, extra_body={"ignore_eos": True, "deadline_s": 0.05}))


def test_every_request_leaves_a_line(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    server = launch("--request-log", str(path))
    call(server, "POST", "/v1/completions", BODY | {"n": 2, "temperature": 0}, JSON | {"X-Request-Id": "one"})
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "secret"}], "max_tokens": 4, "stream": True}
    call(server, "POST", "/v1/chat/completions", chat)
    call(server, "POST", "/v1/completions", BODY | {"top_p": 7})

    async def leave() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/v1/completions", json=LONG | {"stream": True}) as got,
        ):
            await got.content.readline()

    asyncio.run(leave())
    time.sleep(0.3)
    server.signal()
    assert server.wait() == 0
    text = path.read_text()
    assert "secret" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 400, 499]
    first = lines[0]
    assert (first["request_id"], first["params"]["n"], first["prompts"]) == ("one", 2, [{"token_ids": [5] * 8}])
    assert [choice["index"] for choice in first["choices"]] == [0, 1]
    for choice in first["choices"]:
        assert 1 <= len(choice["token_ids"]) <= 3
        assert choice["finish_reason"] in ("stop", "length")
        assert 0 < choice["first_token_ms"] <= choice["last_token_ms"] <= first["e2e_ms"]
    assert lines[2]["error"]["param"] == "top_p"
    assert lines[3]["choices"][0]["finish_reason"] == "abort"


def test_the_log_keeps_text_where_it_may(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    server = launch("--request-log", str(path), "--request-log-text")
    _, _, text = call(server, "POST", "/v1/completions", BODY | {"prompt": "The quick", "temperature": 0})
    server.signal()
    server.wait()
    (line,) = map(json.loads, path.read_text().splitlines())
    assert line["prompts"][0]["text"] == "The quick"
    assert line["choices"][0]["text"] == json.loads(text)["choices"][0]["text"]


def test_a_log_that_cannot_be_written_is_refused_at_the_start(tiny_model: Path, tmp_path: Path) -> None:
    arguments = command(tiny_model, free_port(), "--request-log", str(tmp_path / "no" / "where"))
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("engine: error: bad_config: --request-log: ")


def test_bytes_that_are_no_http_do_no_harm(server: Process) -> None:
    for data in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            sock.sendall(data)
            assert sock.recv(4096).startswith(b"HTTP/1.")
    assert call(server, "GET", "/health", headers={})[0] == 200
