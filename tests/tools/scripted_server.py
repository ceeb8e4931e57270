"""A real chat completions server over HTTP whose every chunk and delay is scripted, and which keeps the true times."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import web

from tests.tools.in_thread import listening, serve_in_thread
from tools.targets.target import Endpoint

__all__ = ["Exchange", "Script", "ScriptedServer", "serve"]


@dataclass
class Exchange:
    """The server's own truth about one request. Times are on the performance counter, as the client's are."""

    body: dict[str, Any]
    received_s: float
    first_token_s: float | None = None
    last_token_s: float | None = None
    ended_s: float | None = None

    @property
    def ttft_s(self) -> float:
        """From the request's arrival to its first token; the client can't truly see less."""
        assert self.first_token_s is not None
        return self.first_token_s - self.received_s

    @property
    def decode_s(self) -> float:
        assert self.first_token_s is not None and self.last_token_s is not None
        return self.last_token_s - self.first_token_s


@dataclass(frozen=True)
class Script:
    """How to answer. `fault` names a way to be wrong; see `_Answering`."""

    prefill_s: float = 0.0
    step_s: float = 0.0
    tokens: int | None = None
    "None: as many as asked for."
    tokens_per_chunk: int = 1
    understands: frozenset[str] = frozenset({"return_token_ids", "continuous_usage_stats", "ignore_eos", "temperature"})
    refuses: bool = False
    "Answer 400 to an extra that isn't understood, rather than ignore it."
    names_what_it_refuses: bool = True
    fault: str = ""
    usage_in_last_chunk: bool = False
    answers_when_in_flight: int = 0
    "Hold every answer until so many requests have arrived."


@dataclass
class ScriptedServer:
    endpoint: Endpoint
    exchanges: list[Exchange] = field(default_factory=list)
    in_flight: int = 0

    @property
    def loads(self) -> list[Exchange]:
        """The exchanges of a load, without those of a probe (which asks for two tokens)."""
        return [exchange for exchange in self.exchanges if exchange.body["max_tokens"] != 2]


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def serve(script: Script | Callable[[dict[str, Any]], Script]) -> Iterator[ScriptedServer]:
    """Serve `script` (or what it says for a body) on a free loopback port until the block ends."""
    server = ScriptedServer(Endpoint(base_url="", model="scripted"))

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        exchange = Exchange(body, time.perf_counter())
        server.exchanges.append(exchange)
        server.in_flight += 1
        try:
            play = script if isinstance(script, Script) else script(body)
            while len(server.exchanges) < play.answers_when_in_flight:
                await asyncio.sleep(0.005)
            return await _Answering(play, exchange, request).run()
        finally:
            server.in_flight -= 1
            exchange.ended_s = time.perf_counter()

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    with serve_in_thread(lambda: listening(app, cancels=True)) as port:
        server.endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model="scripted")
        yield server


_WRONG_BY = {"usage_high": 1, "usage_low": -1, "early_blank_counted": 1}


class _Answering:
    """One answer, right or wrong in the way that the script names."""

    def __init__(self, script: Script, exchange: Exchange, request: web.Request) -> None:
        self.script = script
        self.exchange = exchange
        self.request = request
        self.body = exchange.body
        self.prompt_tokens = sum(len(message["content"].split()) for message in self.body["messages"])
        self.tokens = script.tokens if script.tokens is not None else self.body["max_tokens"]
        self.sent = 0
        headers = {"Content-Type": "text/event-stream"}
        if script.fault == "clock_skew":
            headers["Date"] = formatdate(time.time() + 7200, usegmt=True)
        self.response = web.StreamResponse(headers=headers)
        self.held = b""

    async def run(self) -> web.StreamResponse:
        refused = self._refused_extras()
        if refused and self.script.refuses:
            detail = ", ".join(refused) if self.script.names_what_it_refuses else "unknown field"
            return web.json_response({"error": {"message": f"not supported: {detail}"}}, status=400)
        match self.script.fault:
            case "503":
                return web.json_response({"error": {"message": "busy"}}, status=503, headers={"Retry-After": "1"})
            case "error_as_200":
                return web.json_response({"error": {"message": "out of memory"}})
            case "html":
                return web.Response(text="<html><body>welcome</body></html>", content_type="text/html")
            case "hang_before_headers":
                await asyncio.sleep(3600)
            case "slow_loris":
                await self.response.prepare(self.request)
                while True:
                    await self.response.write(b":")
                    await asyncio.sleep(0.02)
        await self.response.prepare(self.request)
        await self._stream()
        return self.response

    async def _stream(self) -> None:
        fault = self.script.fault
        if fault == "error_in_stream":
            await self._write({"error": {"message": "engine died", "code": 500}})
            return
        if fault == "never_a_choice":
            await self._write({"choices": []})
            await self._end()
            return
        if fault in ("early_blank", "early_blank_counted"):
            await self._write({"choices": [{"index": 0, "delta": {"content": " "}, "finish_reason": None}]})
        else:
            await self._write(self._chunk({"role": "assistant", "content": ""}, 0))
        await asyncio.sleep(self.script.prefill_s)
        if fault == "hang_after_role":
            await asyncio.sleep(3600)
        while self.sent < self.tokens:
            step = min(self.script.tokens_per_chunk, self.tokens - self.sent)
            self.sent += step
            last = self.sent == self.tokens
            if fault == "truncated_utf8" and last:
                await self.response.write(b'data: {"choices": [{"delta": {"content": "\xe2\x82"}}]}\n\n')
                return
            if fault == "dropped" and self.sent > self.tokens // 2:
                assert self.request.transport is not None
                self.request.transport.abort()
                return
            now = time.perf_counter()
            self.exchange.first_token_s = self.exchange.first_token_s or now
            self.exchange.last_token_s = now
            finish = "length" if last and fault != "no_finish_reason" else None
            text = " ".join(f"w{self.sent - step + n}" for n in range(step)) + " "
            chunk = self._chunk({"content": text}, step, finish)
            await self._write(chunk)
            if fault == "duplicate_chunk" and self.sent == 2:
                await self._write(chunk)
            if not last:
                await asyncio.sleep(self.script.step_s)
        if self.tokens == 0:
            await self._write(self._chunk({}, 0, "stop"))
        await self._end()

    async def _end(self) -> None:
        fault = self.script.fault
        if fault != "no_usage" and not self.script.usage_in_last_chunk:
            await self._write({"choices": [], "usage": self._usage(self.sent + _WRONG_BY.get(fault, 0))})
        if fault != "no_done":
            await self.response.write(b"data: [DONE]\n\n")
        if fault == "open_after_done":
            await asyncio.sleep(3600)

    def _refused_extras(self) -> list[str]:
        asked: set[str] = {name for name in ("return_token_ids", "ignore_eos", "temperature") if name in self.body}
        if "continuous_usage_stats" in self.body["stream_options"]:
            asked.add("continuous_usage_stats")
        return sorted(asked - self.script.understands)

    def _chunk(self, delta: dict[str, Any], tokens: int, finish: str | None = None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk: dict[str, Any] = {"object": "chat.completion.chunk", "choices": [choice]}
        if "return_token_ids" in self.script.understands and self.body.get("return_token_ids"):
            choice["token_ids"] = list(range(self.sent - tokens, self.sent))
            if tokens == 0 and self.sent == 0:
                choice["prompt_token_ids"] = list(range(self.prompt_tokens))
        continuous = "continuous_usage_stats" in self.script.understands
        if continuous and self.body["stream_options"].get("continuous_usage_stats"):
            chunk["usage"] = self._usage(self.sent)
        if finish and self.script.usage_in_last_chunk:
            chunk["usage"] = self._usage(self.sent)
        return chunk

    def _usage(self, completion_tokens: int) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self.prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    async def _write(self, payload: dict[str, Any]) -> None:
        event = f"data: {json.dumps(payload)}\n\n".encode()
        if self.script.fault == "buffered" and self.sent < self.tokens:
            self.held += event  # as a proxy does that waits for the end
            return
        await self.response.write(self.held + event)
        self.held = b""
