"""Exchange: one request with all its choices, from the engine to the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import orjson
from aiohttp import web

from engine.errors import RequestRefused
from engine.server.choices import Choice, joined
from engine.server.pieces import Json, Piece, error_body, event, usage
from engine.server.shapes import Shape

__all__ = ["Exchange"]

EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Exchange:
    """Leaving the `with` ends what the engine still does for it."""

    def __init__(self, shape: Shape, *, usage_at_end: bool, usage_always: bool) -> None:
        self.choices: list[Choice] = []
        self.text: dict[int, str] = {}
        "Of each choice, where it is kept for the request log."
        self.keeps_text = False
        self._shape = shape
        self._usage_at_end, self._usage_always = usage_at_end, usage_always
        self._answers = ExitStack()
        self._response: web.StreamResponse | None = None

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()

    def add(self, choice: Choice) -> None:
        self._answers.enter_context(choice.answer)
        self.choices.append(choice)

    async def whole(self) -> web.Response:
        """The answer at once. Raises: RequestRefused, where one of the choices fails."""
        pieces: dict[int, list[Piece]] = {choice.index: [] for choice in self.choices}

        async def keep(choice: Choice, piece: Piece) -> None:
            pieces[choice.index].append(piece)

        await self._follow(keep)
        body = self._shape.whole([joined(pieces[choice.index]) for choice in self.choices], self._counts())
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    async def stream(self, request: web.Request, headers: Json) -> web.StreamResponse:
        """Server-sent events: one write per step and choice, then the usage if asked for, then [DONE].

        Raises:
            RequestRefused: a choice fails before anything was sent. Later, an event says so.
        """
        # The status is sent with the first token: until then a failure can have a status of its own.
        response = web.StreamResponse(headers={**EVENT_STREAM, **headers})
        shape, always = self._shape, self._usage_always
        started = asyncio.Lock()

        async def send(choice: Choice, piece: Piece) -> None:
            if not response.prepared:
                async with started:
                    if not response.prepared:
                        await response.prepare(request)
            data = shape.chunk(choice.index, piece, self._counts() if always else None)
            if data:
                await response.write(data)

        try:
            await self._follow(send)
        except RequestRefused as error:
            if not response.prepared:
                raise
            body = error_body(error.sentence, status=error.status, code=error.code, param=error.param)
            await response.write_eof(event(body) + b"data: [DONE]\n\n")
            return response
        closing = shape.closing(self._counts()) if self._usage_at_end else b""
        await response.write_eof(closing + b"data: [DONE]\n\n")
        return response

    def entry(self, arrived_s: float) -> Json:
        """What the request log keeps of it; times in ms from `arrived_s`, on the monotonic clock."""
        prompts = {id(choice.prompt): choice.prompt for choice in self.choices}.values()
        told: list[Json] = []
        for prompt in prompts:
            told.append({"token_ids": list(prompt.token_ids)} | ({"text": prompt.text} if self.keeps_text else {}))
        choices = []
        for choice in self.choices:
            choices.append(
                {
                    "index": choice.index,
                    "token_ids": choice.token_ids,
                    "finish_reason": choice.finish_reason or "abort",
                    "cached_tokens": choice.num_cached_tokens,
                    "first_token_ms": milliseconds(choice.first_token_s, arrived_s),
                    "last_token_ms": milliseconds(choice.last_token_s, arrived_s),
                    **({"text": self.text.get(choice.index, "")} if self.keeps_text else {}),
                }
            )
        return {"e2e_ms": milliseconds(time.monotonic(), arrived_s), "prompts": told, "choices": choices}

    def _counts(self) -> Json:
        first_of = {id(choice.prompt): choice for choice in reversed(self.choices)}.values()
        return usage(
            sum(len(choice.prompt.token_ids) for choice in first_of),
            sum(len(choice.token_ids) for choice in self.choices),
            sum(choice.num_cached_tokens for choice in first_of),
        )

    async def _follow(self, take: Callable[[Choice, Piece], Awaitable[Any]]) -> None:
        """Hand every piece of every choice to `take`, in the order in which they come."""
        if len(self.choices) == 1:
            await self._follow_one(self.choices[0], take)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for choice in self.choices:
                    group.create_task(self._follow_one(choice, take))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _follow_one(self, choice: Choice, take: Callable[[Choice, Piece], Awaitable[Any]]) -> None:
        async for delta in choice.answer:
            piece = choice.take(delta)
            if self.keeps_text:
                self.text[choice.index] = self.text.get(choice.index, "") + piece.text
            await take(choice, piece)
            if piece.finish_reason:
                return


def milliseconds(at_s: float, arrived_s: float) -> float | None:
    return round((at_s - arrived_s) * 1e3, 3) if at_s else None
