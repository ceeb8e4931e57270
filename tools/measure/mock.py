"""A mock server with fixed, known delays that keeps the true times of all it sent: `python -m tools.measure.mock`.

It answers completions and chat completions with as many tokens as are asked for, one a chunk: the first after
`--ttft-ms`, each further one after `--itl-ms`, both on an absolute schedule from the moment the request was whole. With
0 between tokens, or asked for the model `mock-flood`, it sends as fast as it can. Clients are measured against it, and
ours measures itself.

    GET  /health, /v1/models
    POST /v1/chat/completions, /v1/completions
    GET  /truth     {"requests": [{"received_s", "sent_s": [...]}]}, seconds on the machine's performance counter
    POST /reset     forget them
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import time
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import orjson

from tools.measure.client import loop_factory

__all__ = ["FLOOD", "MODEL", "Delays", "Mock", "main"]

MODEL, FLOOD = "mock", "mock-flood"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: "
_STREAM_HEAD = _OK + b"text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from a request to its first token, and from each token to the next."""

    ttft_s: float
    itl_s: float


@dataclass(slots=True)
class _Truth:
    received_s: float
    sent_s: list[float] = field(default_factory=list)


class Mock:
    """What all connections share."""

    def __init__(self, delays: Delays, extras: bool) -> None:
        self.delays = delays
        self.extras = extras
        "Whether token ids and running usage are told to those who ask."
        self.truth: list[_Truth] = []

    def truth_json(self) -> bytes:
        return orjson.dumps({"requests": [{"received_s": t.received_s, "sent_s": t.sent_s} for t in self.truth]})


class _Stream:
    """One answer: its chunks ready to be sent, and the schedule they are sent on."""

    def __init__(self, mock: Mock, transport: asyncio.Transport, chat: bool, asked: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._delays = Delays(0.0, 0.0) if asked.get("model") == FLOOD else mock.delays
        self._truth = _Truth(time.perf_counter())
        mock.truth.append(self._truth)
        self._start_s = self._loop.time()
        self._total = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)
        self._prompt_tokens = _prompt_tokens(asked)
        options = asked.get("stream_options") or {}
        self._usage_asked = bool(options.get("include_usage"))
        self._running_usage = mock.extras and bool(options.get("continuous_usage_stats"))
        ids = ',"token_ids":[17]' if mock.extras and asked.get("return_token_ids") else ""
        kind = "chat.completion.chunk" if chat else "text_completion"
        said = '"delta":{"content":" word"}' if chat else '"text":" word"'
        self._before = (
            f'data: {{"id":"cmpl-mock","object":"{kind}","created":{int(time.time())},"model":"{MODEL}","choices":'
            f'[{{"index":0,{said},"logprobs":null,"finish_reason":'
        )
        self._after = f"{ids}}}]"
        self._plain = _framed(f"{self._before}null{self._after}}}\n\n".encode())
        self._sent = 0
        self._held = False
        self._owed = False
        transport.write(_STREAM_HEAD)
        self._await_next()

    def hold(self) -> None:
        """The reader is behind: nothing more is sent until `go_on`."""
        self._held = True

    def go_on(self) -> None:
        self._held = False
        if self._owed:
            self._owed = False
            self._next()

    def _await_next(self) -> None:
        delays = self._delays
        if self._sent and not delays.itl_s:
            self._loop.call_soon(self._next)
        else:
            self._loop.call_at(self._start_s + delays.ttft_s + self._sent * delays.itl_s, self._next)

    def _next(self) -> None:
        if self._transport.is_closing():
            return
        if self._held:
            self._owed = True
            return
        self._sent += 1
        last = self._sent == self._total
        chunk = self._plain if not last and not self._running_usage else self._chunk(last)
        self._truth.sent_s.append(time.perf_counter())
        self._transport.write(chunk)
        if last:
            self._transport.write(self._ending())
        else:
            self._await_next()

    def _chunk(self, last: bool) -> bytes:
        usage = f',"usage":{self._usage()}' if self._running_usage else ""
        reason = '"length"' if last else "null"
        return _framed(f"{self._before}{reason}{self._after}{usage}}}\n\n".encode())

    def _ending(self) -> bytes:
        usage = f'data: {{"id":"cmpl-mock","model":"{MODEL}","choices":[],"usage":{self._usage()}}}\n\n'
        told = _framed(usage.encode()) if self._usage_asked else b""
        return told + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _usage(self) -> str:
        total = self._prompt_tokens + self._sent
        return f'{{"prompt_tokens":{self._prompt_tokens},"completion_tokens":{self._sent},"total_tokens":{total}}}'


class _Connection(asyncio.Protocol):
    def __init__(self, mock: Mock) -> None:
        self._mock = mock
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""
        self._stream: _Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        if self._stream is not None:
            self._stream.hold()

    def resume_writing(self) -> None:
        if self._stream is not None:
            self._stream.go_on()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._url, self._body = url, b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path = self._url.partition(b"?")[0]
        if path in (b"/v1/chat/completions", b"/v1/completions"):
            self._answer(path == b"/v1/chat/completions")
        elif path == b"/truth":
            self._json(self._mock.truth_json())
        elif path == b"/reset":
            self._mock.truth.clear()
            self._json(b"{}")
        elif path == b"/v1/models":
            self._json(orjson.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "mock"}]}))
        else:
            self._json(b"{}")

    def _answer(self, chat: bool) -> None:
        asked = orjson.loads(self._body)
        if asked.get("stream"):
            self._stream = _Stream(self._mock, self._transport, chat, asked)
            return
        tokens = int(asked.get("max_tokens") or 1)
        text = " word" * tokens
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {"prompt_tokens": _prompt_tokens(asked), "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        choice = {"index": 0, **said, "finish_reason": "length"}
        self._json(orjson.dumps({"id": "cmpl-mock", "model": MODEL, "choices": [choice], "usage": usage}))

    def _json(self, body: bytes) -> None:
        head = _OK + b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


def _prompt_tokens(asked: dict[str, Any]) -> int:
    """Words of all messages or of the prompt; ids where ids were sent."""
    prompt = asked.get("prompt")
    if isinstance(prompt, list):
        return len(prompt)
    if isinstance(prompt, str):
        return len(prompt.split())
    return sum(len(str(message.get("content")).split()) for message in asked.get("messages", ()))


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(mock: Mock, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: _Connection(mock), host, port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    """Serve until SIGTERM; the port is the first line on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tools.measure.mock", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--itl-ms", type=float, default=10.0)
    parser.add_argument("--plain", action="store_true", help="tell neither token ids nor running usage")
    given = parser.parse_args()
    gc.disable()  # its pauses would be taken for the client's
    mock = Mock(Delays(given.ttft_ms / 1000, given.itl_ms / 1000), not given.plain)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(mock, given.host, given.port))


if __name__ == "__main__":
    main()
