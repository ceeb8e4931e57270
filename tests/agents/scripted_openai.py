"""A real HTTP server that speaks the chat completions API from a script, and keeps what it was asked.

with ScriptedOpenAI(reply({"action": {...}}), Reply(500), reply("not JSON"), then=reply({...})) as server:
    ...server.base_url...
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes | str | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    "Silence before the first byte."
    drip_s: float = 0.0
    "Silence after each byte of the body."
    reset_after: int | None = None
    "Bytes of the body after which the connection is reset."


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    "Names in lower case."
    body: Mapping[str, Any]


Scripted = Reply | Callable[[Mapping[str, Any]], Reply]
"""A reply, or a function from the request's JSON body to one."""

BAD_GATEWAY = Reply(502, "<html>bad gateway</html>", {"Content-Type": "text/html"})


def reply(content: object, finish_reason: str = "stop", **envelope: Any) -> Reply:
    """A well-formed chat completion; `content` that isn't text is sent as JSON text."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    return Reply(200, {**body, **envelope}, {"Content-Type": "application/json"})


class ScriptedOpenAI:
    """Plays `script` in order, then `then` for ever; without it, status 502."""

    def __init__(self, *script: Scripted, then: Scripted = BAD_GATEWAY) -> None:
        self.requests: list[Asked] = []
        self._script, self._then, self._lock = list(script), then, Lock()
        self._over = over = Event()
        play = self._play

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = play(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                raw = answer.body if isinstance(answer.body, bytes | str) else json.dumps(answer.body)
                data = raw.encode() if isinstance(raw, str) else raw
                over.wait(answer.wait_s)
                with suppress(ConnectionError):  # the client may have gone
                    self._send(answer, data)

            def _send(self, answer: Reply, data: bytes) -> None:
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(data)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if answer.reset_after is not None:
                    self.wfile.write(data[: answer.reset_after])
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                elif answer.drip_s:
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        if over.wait(answer.drip_s):
                            break
                else:
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def _play(self, asked: Asked) -> Reply:
        with self._lock:
            self.requests.append(asked)
            scripted = self._script.pop(0) if self._script else self._then
        return scripted if isinstance(scripted, Reply) else scripted(asked.body)

    def __enter__(self) -> ScriptedOpenAI:
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
