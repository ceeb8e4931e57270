"""From start to exit: refused starts, full queues, drains."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.engine.conftest import Launch, Process, command, free_port

LONG = {"model": "tiny", "prompt": [5] * 20, "max_tokens": 490, "ignore_eos": True, "temperature": 0}


def refused(model: Path, *flags: str, port: int | None = None) -> str:
    """The one line a refused start prints; exit code 2, no traceback."""
    arguments = command(model, free_port() if port is None else port, *flags)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_refused_start_says_why_in_one_line(tiny_model: Path, tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere").startswith("engine: error: model_missing: there is no directory")
    line = refused(tiny_model, "--kv-cache-tokens", "256")
    assert line.startswith("engine: error: bad_config: --kv-cache-tokens is 256")
    assert refused(tiny_model, "--max-num-seq", "4").endswith("did you mean --max-num-seqs?")
    assert "4_000_000" not in refused(tiny_model, "--kv-cache-tokens", "5000000")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        line = refused(tiny_model, port=holder.getsockname()[1])
    assert line.startswith("engine: error: port_taken: can't listen on 127.0.0.1:")
    strange = shutil.copytree(tiny_model, tmp_path / "strange")
    config = json.loads((strange / "config.json").read_text())
    (strange / "config.json").write_text(json.dumps(config | {"architectures": ["MambaForCausalLM"]}))
    assert "bad_config: the model has architecture MambaForCausalLM" in refused(strange)
    huge = config | {"num_hidden_layers": 40_000, "num_key_value_heads": 4}
    (strange / "config.json").write_text(json.dumps(huge))
    assert refused(strange, "--kv-cache-tokens", "4000000").startswith("engine: error: oom: needs")


async def post(session: aiohttp.ClientSession, server: Process, body: dict[str, Any]) -> tuple[int, Any, Any]:
    async with session.post(f"{server.url}/v1/completions", json=body) as response:
        return response.status, response.headers.get("Retry-After"), await response.json()


async def until_running(session: aiohttp.ClientSession, server: Process, count: int) -> None:
    while True:
        async with session.get(f"{server.url}/metrics") as response:
            if f"engine_num_requests_running {count}.0" in await response.text():
                return
        await asyncio.sleep(0.01)


def test_one_more_than_the_queue_holds_is_told_to_come_back(launch: Launch) -> None:
    server = launch("--max-num-seqs", "1", "--max-queue-len", "2")

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            others = await asyncio.gather(*(post(session, server, LONG | {"max_tokens": 5}) for _ in range(5)))
            assert sorted(status for status, _, _ in others) == [200, 200, 503, 503, 503]
            assert all(retry == ("1" if status == 503 else None) for status, retry, _ in others)
            assert (await running)[0] == 200
            async with session.get(f"{server.url}/metrics") as response:
                assert "engine_requests_rejected_total 3.0" in await response.text()

    asyncio.run(story())


def test_a_drain_finishes_what_runs_and_refuses_what_is_new(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            server.signal(signal.SIGTERM)
            while True:
                async with session.get(f"{server.url}/health") as response:
                    if response.status == 503:
                        break
            status, retry, body = await post(session, server, LONG)
            assert (status, retry, body["error"]["code"]) == (503, "1", "draining")
            status, _, body = await running
            assert (status, body["usage"]["completion_tokens"]) == (200, 490)

    asyncio.run(story())
    assert server.wait() == 0


def test_a_drain_gives_up_after_its_time(launch: Launch) -> None:
    server = launch("--drain-timeout-s", "0")

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            server.signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientError):
                await running

    asyncio.run(story())
    assert server.wait() == 0


def test_a_second_signal_ends_it_at_once(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            server.signal(signal.SIGTERM)
            while True:
                async with session.get(f"{server.url}/health") as response:
                    if response.status == 503:
                        break
            server.signal(signal.SIGINT)
            with pytest.raises(aiohttp.ClientError):
                await running

    asyncio.run(story())
    assert server.wait() == 128 + signal.SIGINT


def test_the_cache_of_a_busy_server_is_not_reset(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            async with session.post(f"{server.url}/reset_prefix_cache") as response:
                assert response.status == 409
            await running
            async with session.post(f"{server.url}/reset_prefix_cache") as response:
                assert response.status == 200

    asyncio.run(story())
    server.signal()
    assert server.wait() == 0
