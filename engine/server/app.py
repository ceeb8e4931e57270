"""The routes, and what stands between aiohttp and the engine loop."""

from __future__ import annotations

import json
import time
from typing import Any, Literal, TypeVar

from aiohttp import web
from pydantic import ValidationError

from engine.errors import RequestRefused
from engine.server.identity import ServerIdentity
from engine.server.loop import Answer, EngineLoop
from engine.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from engine.server.shapes import AnswerShape, Json, error_body, usage

__all__ = ["Server"]

AnyRequest = TypeVar("AnyRequest", bound=GenerationRequest)

MAX_BODY_BYTES = 64 << 20


class Server:
    """Answers HTTP for one engine. `draining` makes it refuse what is new and finish what it has."""

    def __init__(self, loop: EngineLoop, identity: ServerIdentity) -> None:
        self._loop = loop
        self._engine = loop.engine
        self._identity = identity
        self.draining = False
        self.app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[refusals_as_json])
        self.app.add_routes(
            [
                web.get("/health", self.health),
                web.get("/metrics", self.metrics),
                web.get("/server_info", self.server_info),
                web.get("/v1/models", self.models),
                web.post("/v1/completions", self.completions),
                web.post("/v1/chat/completions", self.chat_completions),
                web.post("/reset_prefix_cache", self.reset_prefix_cache),
            ]
        )

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.draining or self._loop.ended.done() else 200)

    async def metrics(self, _: web.Request) -> web.Response:
        text = self._engine.metrics.expose()
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def server_info(self, _: web.Request) -> web.Response:
        return web.json_response(self._identity.to_json())

    async def models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._identity.model,
            "object": "model",
            "created": int(self._identity.started_at),
            "owned_by": "autotune-engine",
            "max_model_len": self._engine.knobs.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def reset_prefix_cache(self, _: web.Request) -> web.Response:
        if not await self._loop.call(self._engine.reset_prefix_cache):
            raise RequestRefused("requests are running; reset the cache when there are none", status=409, code="busy")
        return web.Response(status=200)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        arrived_s = time.monotonic()
        body = await self._read(request, CompletionRequest)
        prompt = body.single_prompt()
        prompt_ids = self._engine.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        max_tokens = 16 if body.max_tokens is None else body.max_tokens
        return await self._answer(request, body, "completions", prompt_ids, max_tokens, arrived_s)

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        arrived_s = time.monotonic()
        body = await self._read(request, ChatRequest)
        prompt_ids = self._engine.tokenizer.encode_chat([message.plain() for message in body.messages])
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        if max_tokens is None:
            max_tokens = max(1, self._engine.knobs.max_model_len - len(prompt_ids))
        return await self._answer(request, body, "chat", prompt_ids, max_tokens, arrived_s)

    async def _read(self, request: web.Request, kind: type[AnyRequest]) -> AnyRequest:
        """The body as a `kind`, if this server serves what it asks for."""
        if self.draining:
            raise RequestRefused("the server is shutting down", status=503, code="draining")
        try:
            data = json.loads(await request.read())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RequestRefused(f"the body is not JSON: {error}", code="invalid_json") from error
        try:
            body = kind.model_validate(data)
        except ValidationError as error:
            raise refusal_of(error, kind) from error
        if body.model != self._identity.model:
            raise RequestRefused(
                f"the model {body.model!r} does not exist; this server serves {self._identity.model!r}",
                status=404,
                code="model_not_found",
                param="model",
            )
        return body

    async def _answer(
        self,
        request: web.Request,
        body: GenerationRequest,
        endpoint: Literal["chat", "completions"],
        prompt_ids: list[int],
        max_tokens: int,
        arrived_s: float,
    ) -> web.StreamResponse:
        shape = AnswerShape(endpoint, self._identity.model, prompt_ids, body.return_token_ids)
        params = body.sampling(max_tokens)
        with self._loop.submit(shape.request_id, prompt_ids, params, arrived_s=arrived_s) as answer:
            if body.stream:
                return await stream(request, body, shape, answer)
            return await whole(shape, answer)


async def whole(shape: AnswerShape, answer: Answer) -> web.Response:
    deltas = [delta async for delta in answer]
    token_ids = [token for delta in deltas for token in delta.token_ids]
    counts = usage(len(shape.prompt_ids), len(token_ids), deltas[-1].num_cached_tokens)
    text = "".join(delta.text for delta in deltas)
    return web.json_response(shape.whole(text, token_ids, deltas[-1].finish_reason or "", counts))


async def stream(
    request: web.Request, body: GenerationRequest, shape: AnswerShape, answer: Answer
) -> web.StreamResponse:
    """Server-sent events: a chunk per step that has something to say, then the usage if asked for, then [DONE]."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    count = cached = 0
    first = shape.opening() if shape.endpoint == "chat" else None
    async for delta in answer:
        count, cached = count + len(delta.token_ids), delta.num_cached_tokens
        chunks = [] if first is None else [first]
        first = None
        if delta.text or delta.finish_reason or shape.return_token_ids:
            chunks.append(shape.chunk(delta.text, delta.token_ids, delta.finish_reason))
        if count == len(delta.token_ids) and chunks:
            chunks[0] = shape.with_prompt_ids(chunks[0])
        for chunk in chunks:
            if body.usage_always:
                chunk["usage"] = usage(len(shape.prompt_ids), count, cached)
            elif body.usage_at_end:
                chunk["usage"] = None
        if chunks:
            await response.write(b"".join(event(chunk) for chunk in chunks))
    if body.usage_at_end:
        await response.write(event(shape.closing(usage(len(shape.prompt_ids), count, cached))))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def event(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


@web.middleware
async def refusals_as_json(request: web.Request, handler: Any) -> web.StreamResponse:
    """Every refusal as OpenAI's error object, those of aiohttp (404, 405, 413) too."""
    try:
        response: web.StreamResponse = await handler(request)
    except RequestRefused as error:
        headers = {"Retry-After": "1"} if error.status == 503 else None
        content = error_body(error.sentence, status=error.status, code=error.code, param=error.param)
        return web.json_response(content, status=error.status, headers=headers)
    except web.HTTPException as error:
        content = error_body(
            f"{request.method} {request.path}: {error.reason}", status=error.status, code="http", param=None
        )
        return web.json_response(content, status=error.status)
    return response


def refusal_of(error: ValidationError, kind: type[GenerationRequest]) -> RequestRefused:
    """The first thing that is wrong with a body, in a sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return RequestRefused(f"unknown field {where}", code="unknown_parameter", param=where)
    if first["type"] == "missing":
        return RequestRefused(f"the field {where} is missing", code="missing_parameter", param=where)
    found = json.dumps(first["input"], default=str)[:80]
    return RequestRefused(
        f"{where or 'body'}: {first['msg']}, found {found}", code="invalid_value", param=where or None
    )
