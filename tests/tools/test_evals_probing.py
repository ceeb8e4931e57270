"""Servers that tell tokens with their log-probabilities alone, and score no text but what they write themselves."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from aiohttp import web

from tests.tools.in_thread import listening, serve_in_thread
from tools.evals.asker import CHAT, COMPLETIONS, NoAnswer, open_asker
from tools.evals.likelihood import cut_alike, divergence_nats, perplexity
from tools.evals.passages import PASSAGES
from tools.evals.prefix_forcing import PLACES, TOP, probed_at
from tools.evals.results import Passage
from tools.evals.teacher_forcing import score_passages
from tools.evals.told_tokens import alternatives, answer_logprobs, token_ids
from tools.targets import Endpoint

CONTENT = [
    {"id": 7, "token": " a", "logprob": -0.5, "top_logprobs": [{"id": 7, "token": " a", "logprob": -0.5}]},
    {"id": 9, "token": " b", "logprob": -1.5, "top_logprobs": [{"id": 8, "token": " c", "logprob": -0.25}]},
]


def test_tokens_are_found_in_either_form() -> None:
    assert token_ids({"token_ids": [3, 4]}) == (3, 4)
    assert token_ids({"logprobs": {"content": CONTENT}}) == (7, 9)
    assert answer_logprobs({"logprobs": {"content": CONTENT}}) == [-0.5, -1.5]
    assert answer_logprobs({"logprobs": {"token_logprobs": [-1, -2.0]}}) == [-1.0, -2.0]
    assert alternatives({"logprobs": {"content": CONTENT}}) == {" a": -0.5}
    assert alternatives({"logprobs": {"top_logprobs": [{"x": -1}]}}) == {"x": -1.0}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"logprobs": None},
        {"logprobs": {"content": []}},
        {"logprobs": {"content": [{"token": "x"}]}},
        {"token_ids": []},
    ],
)
def test_what_tells_no_token_is_no_answer(said: dict[str, Any]) -> None:
    for read in (token_ids, alternatives):
        with pytest.raises(NoAnswer):
            read(said)


def test_places_are_spread_over_a_text_and_put_together_again() -> None:
    for text in PASSAGES.values():
        places = probed_at(text)
        assert len(places) == PLACES and len({before for before, _ in places}) == PLACES
        assert all(text.startswith(before + word) and word.strip() for before, word in places)


def served(temperature: float) -> list[Any]:
    """A server of llama.cpp's kind: next-token probabilities by the prompt's length, whatever is asked to be echoed."""

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        shift = 7 * len(body["prompt"])
        scores = {f" {letter}": -((shift + place) % 5) / temperature for place, letter in enumerate("abcdef")}
        total = math.log(sum(math.exp(score) for score in scores.values()) + 0.1)
        top = [{"id": n, "token": t, "logprob": s - total} for n, (t, s) in enumerate(scores.items())][
            : body["logprobs"]
        ]
        content = [{**top[0], "top_logprobs": top}]
        return web.json_response({"choices": [{"text": top[0]["token"], "logprobs": {"content": content}}]})

    return [web.post(COMPLETIONS, complete)]


def probed(temperature: float) -> dict[str, Passage]:
    async def score(endpoint: Endpoint) -> dict[str, Passage]:
        async with open_asker(endpoint) as asker:
            return await score_passages(asker, PASSAGES)

    app = web.Application()
    app.add_routes(served(temperature))
    with serve_in_thread(lambda: listening(app)) as port:
        return asyncio.run(score(Endpoint(f"http://127.0.0.1:{port}", "m")))


def test_a_server_that_echoes_nothing_is_probed_word_by_word() -> None:
    same, again, warmer = probed(1.0), probed(1.0), probed(1.05)
    assert all(each.by_prefix and len(each.tokens) == PLACES and len(each.top[0]) <= TOP for each in same.values())
    assert cut_alike(same, warmer) and divergence_nats(same, again) == 0.0
    assert divergence_nats(same, warmer) > 0.0001
    assert perplexity(same) == perplexity(again) > 1
    whole = {name: Passage(each.tokens, each.logprobs, each.top) for name, each in same.items()}
    assert not cut_alike(same, whole)  # one that scores otherwise than before can't be compared with what it was


def test_a_kept_connection_that_its_server_has_closed_is_no_failure() -> None:
    """As llama.cpp's: after each stream, and without a word of warning."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        body = b'{"said": 1}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + b"Content-Length: 11\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async def twice() -> list[dict[str, Any]]:
        server = await asyncio.start_server(closing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, open_asker(Endpoint(f"http://127.0.0.1:{port}", "m")) as asker:
            return [await asker.ask(CHAT, {"n": number}) for number in range(4)]

    assert asyncio.run(twice()) == [{"said": 1}] * 4
