"""The border: what every request passes on its way in, and every answer on its way out."""

from __future__ import annotations

import hmac
import logging
import re
import time
import uuid
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from engine.errors import RequestRefused
from engine.server.pieces import Json, error_body
from engine.server.request_log import RequestLog

__all__ = ["ENTRY", "REQUEST_ID", "border", "json_body", "json_response"]

REQUEST_ID = web.RequestKey("request_id", str)
ENTRY = web.RequestKey("entry", dict)
"""What the handler has to say to the request log; there is no line for requests without."""

OPEN_PATHS = frozenset(("/health", "/ping", "/metrics"))
"""For probes and scrapers, which have no key."""

CLIENT_LEFT = 499
"""nginx's word for it; only the log sees it."""

MAX_DEPTH = 100

log = logging.getLogger("engine.server")


def border(api_key: str, request_log: RequestLog | None) -> Middleware:
    """Checks the key, names the request, words refusals as OpenAI's error objects, writes the log."""

    @web.middleware
    async def pass_through(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("X-Request-Id", "")
        request[REQUEST_ID] = given if re.fullmatch(r"[\x21-\x7e]{1,128}", given) else uuid.uuid4().hex
        status = CLIENT_LEFT
        try:
            response = await answered(request, handler, api_key)
            status = response.status
            return response
        finally:
            if request_log is not None and ENTRY in request:
                entry = {"time": time.time(), "request_id": request[REQUEST_ID], "path": request.path, "status": status}
                request_log.write(entry | request[ENTRY])

    return pass_through


async def answered(request: web.Request, handler: Handler, api_key: str) -> web.StreamResponse:
    headers: dict[str, str] = {}
    try:
        if api_key and request.path not in OPEN_PATHS:
            require_key(request, api_key)
        response = await handler(request)
        if not response.prepared:
            response.headers["X-Request-Id"] = request[REQUEST_ID]
        return response
    except RequestRefused as error:
        refused = error
        if error.status == 503:
            headers["Retry-After"] = "1"
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
    except web.HTTPException as error:  # aiohttp's own: 404, 405, 413
        refused = RequestRefused(f"{request.method} {request.path}: {error.reason}", status=error.status, code="http")
        if "Allow" in error.headers:
            headers["Allow"] = error.headers["Allow"]
    except ConnectionError:
        raise  # the client has left; nobody is to be told
    except Exception:
        log.exception("%s %s", request.method, request.path)
        refused = RequestRefused("the server failed; its log says why", status=500, code="internal_error")
    content = error_body(refused.sentence, status=refused.status, code=refused.code, param=refused.param)
    if ENTRY in request:
        request[ENTRY].setdefault("error", content["error"])
    return json_response(content, status=refused.status, headers={"X-Request-Id": request[REQUEST_ID], **headers})


def require_key(request: web.Request, api_key: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), api_key.encode()):
        raise RequestRefused(
            "the API key is wrong or missing; send it as `Authorization: Bearer KEY`",
            status=401,
            code="invalid_api_key",
        )


async def json_body(request: web.Request) -> Any:
    """The body, if it is JSON.

    Raises:
        RequestRefused: 415 for another content type (a browser may send those unasked), 400 for what is no JSON.
    """
    kind = request.content_type
    if "Content-Type" in request.headers and kind != "application/json" and not kind.endswith("+json"):
        raise RequestRefused(
            f"Content-Type: expected application/json, found {kind}", status=415, code="unsupported_media_type"
        )
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise RequestRefused(f"the body is not JSON: {error}", code="invalid_json") from error
    if is_deep(body):
        raise RequestRefused(f"the body is nested more than {MAX_DEPTH} levels deep", code="invalid_json")
    return body


def is_deep(body: Any) -> bool:
    """Whether recursion over `body` could fail, here or in a library."""
    level = [body]
    for _ in range(MAX_DEPTH):
        insides = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [child for inside in insides for child in inside if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def json_response(content: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, headers=headers, content_type="application/json")
