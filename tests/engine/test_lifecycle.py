"""From start to exit: refused starts, full queues, drains."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
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
    assert "found '0-x'" in refused(tiny_model, "--engine-cpus", "0-x")
    assert "can't be written" in refused(tiny_model, "--request-log", str(tmp_path / "no" / "log"))
    assert "--kernels is triton, which can't run here" in refused(tiny_model, "--kernels", "triton")
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
    assert "Traceback" not in server.log.read_text()


def test_a_signal_to_the_whole_group_drains_too(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            os.kill((await info(session, server))["engine_pid"], signal.SIGTERM)
            server.signal(signal.SIGTERM)
            assert (await running)[0] == 200

    asyncio.run(story())
    assert server.wait() == 0


def test_a_drain_gives_up_after_its_time(launch: Launch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    server = launch("--drain-timeout-s", "0", "--trace", str(trace))

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            running = asyncio.ensure_future(post(session, server, LONG))
            await until_running(session, server, 1)
            server.signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientError):
                await running

    asyncio.run(story())
    assert server.wait() == 0
    assert "Traceback" not in server.log.read_text(), "the engine ends in the middle of its work, and in order"
    assert any(event.get("name") == "run" for event in json.loads(trace.read_text())["traceEvents"])


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


async def info(session: aiohttp.ClientSession, server: Process) -> dict[str, Any]:
    async with session.get(f"{server.url}/server_info") as response:
        found: dict[str, Any] = await response.json()
        return found


async def health(session: aiohttp.ClientSession, server: Process) -> int:
    """Status of /health; 0 where nobody answers."""
    try:
        async with session.get(f"{server.url}/health") as response:
            return response.status
    except aiohttp.ClientError:
        return 0


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def within(seconds: float, condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


def test_a_killed_engine_is_seen_by_health_and_by_clients(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            whole = asyncio.ensure_future(post(session, server, LONG))
            async with session.post(f"{server.url}/v1/completions", json=LONG | {"stream": True}) as stream:
                assert (await stream.content.readline()).startswith(b"data: {")
                os.kill((await info(session, server))["engine_pid"], signal.SIGKILL)

                async def unhealthy() -> bool:
                    return await health(session, server) != 200

                async with asyncio.timeout(2):
                    status, _, body = await whole
                    rest = await stream.content.read()
                    await within(2, unhealthy)
                assert (status, body["error"]["code"]) == (500, "engine_gone")
                assert b'"engine_gone"' in rest

    asyncio.run(story())
    assert server.wait() != 0
    assert "was killed (SIGKILL) while serving" in server.log.read_text()


def test_health_fails_while_the_engine_is_stuck(launch: Launch) -> None:
    server = launch("--stuck-after-s", "1")

    async def story() -> None:
        async with aiohttp.ClientSession() as session:

            async def is_healthy() -> bool:
                return await health(session, server) == 200

            async def is_not() -> bool:
                return not await is_healthy()

            await asyncio.sleep(1.5)
            assert await is_healthy(), "an idle engine gives signs of life"
            pid = (await info(session, server))["engine_pid"]
            os.kill(pid, signal.SIGSTOP)
            await within(5, is_not)
            os.kill(pid, signal.SIGCONT)
            await within(5, is_healthy)

    asyncio.run(story())


def test_the_engine_ends_with_a_killed_server(launch: Launch) -> None:
    server = launch()

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            pid = (await info(session, server))["engine_pid"]
            server.signal(signal.SIGKILL)

            async def gone() -> bool:
                return not alive(pid)

            await within(2, gone)

    asyncio.run(story())


def test_server_and_engine_are_bound_to_the_cores_they_are_given(launch: Launch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    server = launch("--engine-cpus", str(cores[0]), "--server-cpus", str(cores[-1]))

    async def story() -> None:
        async with aiohttp.ClientSession() as session:
            found = await info(session, server)
            assert os.sched_getaffinity(found["engine_pid"]) == {cores[0]}
            assert os.sched_getaffinity(found["pid"]) == {cores[-1]}

    asyncio.run(story())
