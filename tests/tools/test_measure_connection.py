"""The connection: HTTP framings of all kinds, kept-alive connections, and servers that don't keep to HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from tests.tools.raw_server import serve_bytes
from tests.tools.test_measure_client import workload
from tools.measure import WorkloadSpec, materialise
from tools.measure.client import drive
from tools.measure.connections import Connections
from tools.measure.dialect import Dialect
from tools.targets.target import Endpoint

EVENTS = [
    *({"choices": [{"index": 0, "delta": {"content": f"w{n} "}, "finish_reason": None}]} for n in range(4)),
    {"choices": [{"index": 0, "delta": {"content": "end"}, "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}},
]
STREAM = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in EVENTS) + b"data: [DONE]\n\n"
KIND = b"Content-Type: text/event-stream\r\n"


def chunked(data: bytes, size: int) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


FRAMINGS = {
    "chunked": b"HTTP/1.1 200 OK\r\n" + KIND + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(STREAM, 40),
    "one big chunk": b"HTTP/1.1 200 OK\r\n" + KIND + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(STREAM, 10**6),
    "with a length": b"HTTP/1.1 200 OK\r\n" + KIND + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM,
    "until the end": b"HTTP/1.1 200 OK\r\n" + KIND + b"Connection: close\r\n\r\n" + STREAM,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + KIND + b"\r\n" + STREAM,
    "after an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
    + KIND
    + b"Content-Length: %d\r\n\r\n" % len(STREAM)
    + STREAM,
}


@pytest.mark.parametrize("cut", [1, 7, 100_000])
@pytest.mark.parametrize("framing", [*FRAMINGS])
def test_every_framing_is_read_however_it_is_cut(framing: str, cut: int) -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        told = FRAMINGS[framing]
        for at in range(0, len(told), cut):
            yield told[at : at + cut]

    with serve_bytes(answer) as endpoint:
        (record,) = drive(endpoint, workload(1), dialect=Dialect()).records
    assert record.outcome == "ok", record.error
    assert record.output_tokens == 5 and record.http_status == 200


def test_a_kept_connection_serves_many_requests_and_a_closed_one_is_replaced() -> None:
    asked = 0

    async def answer(body: bytes) -> AsyncIterator[bytes]:
        nonlocal asked
        asked += 1
        if asked % 3 == 0:
            raise ConnectionResetError  # closes a kept connection before a byte of the answer
        yield FRAMINGS["chunked"]

    with serve_bytes(answer, keep=True) as endpoint:
        load = drive(endpoint, workload(6, {"kind": "closed", "concurrency": 1}), dialect=Dialect())
    assert [record.outcome for record in load.records] == ["ok"] * 6, [record.error for record in load.records]
    assert asked == 8  # 6 and the two that had to be sent again


@pytest.mark.parametrize(
    ("told", "slug"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "transport"),
        (b"HTTP/1.1 200 OK\r\n" + KIND + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "transport"),
        (
            b"HTTP/1.1 200 OK\r\n" + KIND + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(STREAM, 40)[:90],
            "dropped_stream",
        ),
        (b"HTTP/1.1 200 OK\r\n" + KIND + b"Content-Length: 5000\r\n\r\n" + STREAM[:200], "dropped_stream"),
        (b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", "http_307"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "http_204"),
        (b"", "dropped_stream"),
    ],
)
def test_what_is_no_answer_is_named(told: bytes, slug: str) -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield told

    with serve_bytes(answer) as endpoint:
        (record,) = drive(endpoint, workload(1), dialect=Dialect()).records
    assert record.outcome == "failed"
    assert record.error.split(":")[0] == slug, record.error


def test_a_path_before_the_api_is_kept() -> None:
    seen: list[bytes] = []

    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield FRAMINGS["chunked"]

    async def ask(endpoint: Endpoint) -> int | None:
        connections = Connections(f"{endpoint.base_url}/proxy/openai/", {})
        try:
            reply = await connections.finish(connections.begin("/v1/x", b"{}", _Sink(), timeout_s=5))
        finally:
            connections.close()
        return reply.status

    class _Sink:
        done = False

        def feed(self, received: bytes, at_s: float) -> None:
            seen.append(received)

    with serve_bytes(answer) as endpoint:
        assert asyncio.run(ask(endpoint)) == 200
    assert b"".join(seen) == STREAM


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an http"):
        Connections("ftp://somewhere", {})


def test_a_body_without_end_does_not_hold_the_client() -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\nContent-Length: 100000000\r\n\r\n"
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    started = time.monotonic()
    with serve_bytes(answer) as endpoint:
        (record,) = drive(endpoint, workload(1, timeout_s=60), dialect=Dialect()).records
    assert record.error.startswith("http_500: xxx")
    assert time.monotonic() - started < 50


def test_a_body_whose_end_comes_late_delays_nobody_and_its_connection_is_kept() -> None:
    opened: list[float] = []

    async def answer(body: bytes) -> AsyncIterator[bytes]:
        told = FRAMINGS["chunked"]
        yield told[:-5]
        await asyncio.sleep(0.02)
        yield told[-5:]

    gaps = {"turns": 4, "turn_gap_s": 0.5, "arrivals": {"kind": "burst"}}
    spec = {"requests": 4, "prompt_tokens": 12, "output_tokens": 5, **gaps}
    with serve_bytes(answer, keep=True, opened=opened) as endpoint:
        load = drive(endpoint, materialise(WorkloadSpec.model_validate(spec), 1), dialect=Dialect())
    assert [record.outcome for record in load.records] == ["ok"] * 4, [record.error for record in load.records]
    assert len(opened) == 1


def test_what_is_due_is_told_between_two_reads() -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield FRAMINGS["chunked"]

    rung = 0

    class _Ignored:
        done = False

        def feed(self, received: bytes, at_s: float) -> None: ...

    async def ask(endpoint: Endpoint, due_s: float) -> None:
        def ring() -> None:
            nonlocal rung
            rung += 1

        connections = Connections(endpoint.base_url, {})
        connections.alarm.due_s, connections.alarm.ring = due_s, ring
        try:
            await connections.finish(connections.begin("/v1/x", b"{}", _Ignored(), timeout_s=5))
        finally:
            connections.close()

    with serve_bytes(answer) as endpoint:
        asyncio.run(ask(endpoint, time.perf_counter() + 3600))
        assert rung == 0
        asyncio.run(ask(endpoint, time.perf_counter()))
    assert rung >= 1


def test_a_switch_of_protocols_is_no_answer() -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx"

    with serve_bytes(answer) as endpoint:
        (record,) = drive(endpoint, workload(1, timeout_s=3), dialect=Dialect()).records
    assert record.outcome != "ok"


def test_an_aborted_answer_is_none() -> None:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        yield FRAMINGS["with a length"].replace(b'"finish_reason": "length"', b'"finish_reason": "abort" ')

    with serve_bytes(answer) as endpoint:
        (record,) = drive(endpoint, workload(1), dialect=Dialect()).records
    assert record.error.startswith("aborted: ")
