"""/openapi.json: the API as OpenAPI 3.1, from the models that requests are read with."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from engine import __version__
from engine.server import replies
from engine.server.protocol import ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest

__all__ = ["document"]

Json = dict[str, Any]
Route = tuple[str, str, type[BaseModel] | None, type[BaseModel] | None, str, tuple[int, ...]]

GENERATION = (400, 404, 413, 415, 500, 503, 504)
ROUTES: tuple[Route, ...] = (
    ("post", "/v1/completions", CompletionRequest, replies.Completion, "Continue prompts", GENERATION),
    ("post", "/v1/chat/completions", ChatRequest, replies.ChatCompletion, "Answer a conversation", GENERATION),
    (
        "post",
        "/tokenize",
        TokenizeRequest,
        replies.Tokenized,
        "Ids of a prompt or a conversation",
        (400, 404, 413, 415, 503),
    ),
    ("post", "/detokenize", DetokenizeRequest, replies.Detokenized, "Text of token ids", (400, 404, 413, 415, 503)),
    ("get", "/tokenizer_info", None, None, "The model's tokenizer_config.json", ()),
    ("get", "/v1/models", None, replies.Models, "What is served", ()),
    ("get", "/v1/models/{model}", None, replies.Model, "What is served, by name", (404,)),
    ("get", "/version", None, replies.Version, "The engine's version", ()),
    ("get", "/load", None, replies.Load, "Requests that are being answered", ()),
    ("get", "/server_info", None, None, "What exactly is served, and how", ()),
    ("post", "/reset_prefix_cache", None, None, "Forget all cached prefixes", (409, 500, 503)),
    ("get", "/health", None, None, "Whether requests are answered", (503,)),
    ("get", "/ping", None, None, "The same", (503,)),
    ("get", "/metrics", None, None, "Prometheus metrics", (500, 503)),
)
INPUTS: frozenset[type[BaseModel]] = frozenset((CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest))
PROBES = ("/health", "/ping")
EMPTY = (*PROBES, "/reset_prefix_cache")


@functools.lru_cache(1)
def document(model: str) -> Json:
    """The API of a server that serves `model`."""
    kinds: set[type[BaseModel]] = {replies.Failure, replies.ChatCompletionChunk}
    for route in ROUTES:
        kinds |= {kind for kind in (route[2], route[3]) if kind is not None}
    ordered: list[type[BaseModel]] = sorted(kinds, key=lambda kind: kind.__name__)
    refs, definitions = models_json_schema(
        [(kind, mode_of(kind)) for kind in ordered], ref_template="#/components/schemas/{model}"
    )
    schemas = definitions["$defs"]
    for kind in INPUTS:
        schema = schemas[kind.__name__]
        schema["properties"]["model"] = {"enum": [model] if "model" in schema.get("required", ()) else [model, None]}
    named = {kind: ref for (kind, _), ref in refs.items()}
    paths: Json = {}
    for method, path, body, reply, summary, statuses in ROUTES:
        paths.setdefault(path, {})[method] = operation(path, body, reply, summary, statuses, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "autotune engine", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def mode_of(kind: type[BaseModel]) -> Literal["validation", "serialization"]:
    return "validation" if kind in INPUTS else "serialization"


def operation(
    path: str,
    body: type[BaseModel] | None,
    reply: type[BaseModel] | None,
    summary: str,
    statuses: tuple[int, ...],
    named: dict[Any, Any],
) -> Json:
    good: Json = {"description": "OK"}
    if path == "/metrics":
        good["content"] = {"text/plain": {"schema": {"type": "string"}}}
    elif path not in EMPTY:
        good["content"] = {"application/json": {"schema": named.get(reply, {"type": "object"})}}
    if reply in (replies.Completion, replies.ChatCompletion):
        # Of one event; readers of a schema look at them one by one.
        event = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
        good["content"]["text/event-stream"] = {"schema": event}
    failure = {"application/json": {"schema": named[replies.Failure]}}
    responses: Json = {"200": good}
    for status in (401, *statuses):
        empty = path in PROBES
        responses[str(status)] = {"description": HTTPStatus(status).phrase} | ({} if empty else {"content": failure})
    described: Json = {"summary": summary, "responses": responses}
    if "{model}" in path:
        described["parameters"] = [
            {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        ]
    if body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": named[body]}}}
    return described
