"""A real HTTP server that answers what it is told to, by method and path, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.tools.in_thread import listening, serve_in_thread
from tools.targets.control import ControlClient

__all__ = ["Answering", "answering"]

Answer = tuple[int, str] | list[tuple[int, str]]
"""Status and body; of several each is given once, and the last one from then on."""


@dataclass
class Answering:
    """A running server."""

    client: ControlClient
    asked: list[str] = field(default_factory=list)
    "As `GET /props`, in their order."


@contextmanager
def answering(answers: Mapping[str, Answer]) -> Iterator[Answering]:
    """Serve `answers`, keyed as `GET /props`, on a free port of loopback; anything else is a 404."""
    left = {question: list(answer) if isinstance(answer, list) else [answer] for question, answer in answers.items()}
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        question = f"{request.method} {request.path_qs}"
        asked.append(question)
        given = left.get(question, [(404, "")])
        status, body = given.pop(0) if len(given) > 1 else given[0]
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    with serve_in_thread(lambda: listening(app)) as port:
        yield Answering(ControlClient(f"http://127.0.0.1:{port}"), asked)
