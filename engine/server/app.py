"""The routes, and what stands between aiohttp and the engine's process."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from engine import __version__
from engine.errors import RequestRefused
from engine.server.border import ENTRY, border, json_body, json_response
from engine.server.generation import Generation
from engine.server.identity import ServerIdentity
from engine.server.link import EngineLink
from engine.server.openapi import document
from engine.server.options import ServeOptions
from engine.server.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    GenerationRequest,
    TokenizeRequest,
)
from engine.server.request_log import RequestLog
from engine.tokenizer import ModelTokenizer

__all__ = ["Server"]

Body = TypeVar("Body", bound=BaseModel)

MAX_BODY_BYTES = 64 << 20


class Server:
    """Answers HTTP for one engine. `draining` makes it refuse what is new and finish what it has."""

    def __init__(
        self, link: EngineLink, tokenizer: ModelTokenizer, identity: ServerIdentity, options: ServeOptions
    ) -> None:
        """Raises: StartRefused, where the request log can't be written."""
        self._link, self._tokenizer, self._identity, self._options = link, tokenizer, identity, options
        self._log = None
        if options.request_log is not None:
            self._log = RequestLog(options.request_log, with_text=options.request_log_text)
        self._generation = Generation(link, tokenizer, identity, self._log)
        self.draining = False
        self.app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[border(options.api_key, self._log)])
        self.app.on_cleanup.append(self._clean_up)
        self.app.add_routes(
            [
                web.get("/health", self.health),
                web.get("/ping", self.health),
                web.get("/metrics", self.metrics),
                web.get("/version", self.version),
                web.get("/load", self.load),
                web.get("/server_info", self.server_info),
                web.get("/openapi.json", self.openapi),
                web.get("/v1/models", self.models),
                web.get("/v1/models/{model:.+}", self.model),
                web.get("/tokenizer_info", self.tokenizer_info),
                web.post("/tokenize", self.tokenize),
                web.post("/detokenize", self.detokenize),
                web.post("/v1/completions", self.completions),
                web.post("/v1/chat/completions", self.chat_completions),
                web.post("/reset_prefix_cache", self.reset_prefix_cache),
            ]
        )

    async def health(self, _: web.Request) -> web.Response:
        link = self._link
        stuck = link.heartbeat_age_s() > self._options.stuck_after_s
        return web.Response(status=503 if self.draining or link.ended.done() or stuck else 200)

    async def metrics(self, _: web.Request) -> web.Response:
        text = await self._link.call("metrics")
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def version(self, _: web.Request) -> web.Response:
        return json_response({"version": __version__})

    async def load(self, _: web.Request) -> web.Response:
        return json_response({"server_load": self._link.num_requests})

    async def server_info(self, _: web.Request) -> web.Response:
        return json_response(self._identity.to_json())

    async def openapi(self, _: web.Request) -> web.Response:
        return json_response(document(self._identity.model))

    async def models(self, _: web.Request) -> web.Response:
        return json_response({"object": "list", "data": [self._model_card()]})

    async def model(self, request: web.Request) -> web.Response:
        self._require_model(request.match_info["model"])
        return json_response(self._model_card())

    async def tokenizer_info(self, _: web.Request) -> web.Response:
        tokenizer = self._tokenizer
        template = tokenizer.chat_template.source(with_tools=False)
        told = {**tokenizer.config, **tokenizer.special_tokens, "chat_template": template}
        # Not orjson: model_max_length is 10**30 where there is no limit.
        return web.json_response(told)

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await self._read(request, TokenizeRequest)
        if body.prompt is not None:
            ids = await self._generation.encode(body.prompt, special=body.add_special_tokens is not False)
        else:
            ids = await self._generation.encode(self._generation.render(body), special=bool(body.add_special_tokens))
        names = [self._tokenizer.name_of(token) for token in ids] if body.return_token_strs else None
        limit = self._identity.max_model_len
        return json_response({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": names})

    async def detokenize(self, request: web.Request) -> web.Response:
        body = await self._read(request, DetokenizeRequest)
        return json_response({"prompt": self._tokenizer.decode(body.tokens, skip_special_tokens=False)})

    async def reset_prefix_cache(self, _: web.Request) -> web.Response:
        if not await self._link.call("reset_prefix_cache"):
            raise RequestRefused("requests are running; reset the cache when there are none", status=409, code="busy")
        return web.Response(status=200)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        arrived_s = time.monotonic()
        return await self._generation.completions(request, await self._read(request, CompletionRequest), arrived_s)

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        arrived_s = time.monotonic()
        return await self._generation.chat(request, await self._read(request, ChatRequest), arrived_s)

    async def _read(self, request: web.Request, kind: type[Body]) -> Body:
        """The body as a `kind`, if this server serves what it asks for."""
        if self.draining:
            raise RequestRefused("the server is shutting down", status=503, code="draining")
        generates = issubclass(kind, GenerationRequest)
        if generates:
            request[ENTRY] = {}
        data = await json_body(request)
        if generates and self._log is not None and isinstance(data, dict):
            told = ("prompt", "messages", "tools", "documents")
            request[ENTRY]["params"] = {k: v for k, v in data.items() if self._log.with_text or k not in told}
        try:
            body = kind.model_validate(data)
        except ValidationError as error:
            raise refusal_of(error) from error
        name: str | None = getattr(body, "model", None)
        if name is not None:
            self._require_model(name)
        return body

    def _require_model(self, name: str) -> None:
        if name != self._identity.model:
            raise RequestRefused(
                f"the model {name!r} does not exist; this server serves {self._identity.model!r}",
                status=404,
                code="model_not_found",
                param="model",
            )

    def _model_card(self) -> dict[str, object]:
        return {
            "id": self._identity.model,
            "object": "model",
            "created": int(self._identity.started_at),
            "owned_by": "autotune-engine",
            "max_model_len": self._identity.max_model_len,
        }

    async def _clean_up(self, _: web.Application) -> None:
        if self._log is not None:
            await asyncio.to_thread(self._log.close)


def refusal_of(error: ValidationError) -> RequestRefused:
    """The first thing that is wrong with a body, in a sentence."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return RequestRefused(f"unknown field {where}", code="unknown_parameter", param=where)
    if first["type"] == "missing":
        return RequestRefused(f"the field {where} is missing", code="missing_parameter", param=where)
    found = orjson.dumps(first["input"], default=str).decode(errors="replace")[:80]
    return RequestRefused(
        f"{where or 'body'}: {first['msg']}, found {found}", code="invalid_value", param=where or None
    )
