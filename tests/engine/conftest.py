"""A tiny model for every test of the engine, and servers over it that are always reaped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from tests.tiny_model import build_tiny_model

MODEL_NAME = "tiny"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / MODEL_NAME)


@dataclass
class Process:
    """A server in a process of its own."""

    popen: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def wait(self) -> int:
        return self.popen.wait(timeout=30)


Launch = Callable[..., Process]


def command(model: Path, port: int, *flags: str) -> list[str]:
    serve = [sys.executable, "-m", "engine", "serve", str(model), "--port", str(port)]
    return [*serve, "--served-model-name", MODEL_NAME, "--num-threads", "1", "--dtype", "fp32", *flags]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def start(model: Path, log: Path, *flags: str) -> Process:
    port = free_port()
    with log.open("wb") as out:
        popen = subprocess.Popen(
            command(model, port, *flags),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    process = Process(popen, port, log)
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{process.url}/health", timeout=5):
                return process
        except (URLError, ConnectionError):
            if popen.poll() is not None or time.monotonic() > deadline:
                reap(process)
                raise RuntimeError(f"the server didn't become ready:\n{log.read_text()}") from None
            time.sleep(0.05)


def reap(process: Process) -> None:
    if process.popen.poll() is None:
        process.popen.kill()
    process.popen.wait()


@pytest.fixture(scope="session")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One server that tests share; they leave it running and idle."""
    process = start(tiny_model, tmp_path_factory.mktemp("server") / "log")
    yield process
    reap(process)


@pytest.fixture
def launch(tiny_model: Path, tmp_path: Path) -> Iterator[Launch]:
    """Starts a server of the test's own, with the given flags."""
    started: list[Process] = []

    def launch_one(*flags: str) -> Process:
        started.append(start(tiny_model, tmp_path / f"log{len(started)}", *flags))
        return started[-1]

    yield launch_one
    for process in started:
        reap(process)
