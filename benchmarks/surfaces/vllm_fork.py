"""Fork server for vLLM: run by vLLM's own interpreter, it imports vLLM once and forks a child for each launch.

    python vllm_fork.py SOCKET

On a CPU vLLM starts three interpreters, each of which imports it anew: most of a minute on one core, of which the load
takes seconds. Here a child, and the processes that it starts, are forks: each loads the weights and builds its cache
anew. One connection to the Unix socket SOCKET is one launch: a JSON line {"argv", "env", "log"}, answered with the
child's process id, then with its exit code when it ends; when the connection is closed, the child's group is killed.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import select
import signal
import socket
import sys

PRELOADED = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.llama",
)
POLL_S = 0.05


def main(path: str) -> None:
    for name in PRELOADED:
        __import__(name)
    forking = multiprocessing.get_context("fork")
    vars(multiprocessing)["get_context"] = lambda method=None: forking  # vLLM asks for spawn on CPUs
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            asked, _ = listening.accept()
            with asked:
                serve(asked, listening)


def serve(asked: socket.socket, listening: socket.socket) -> None:
    order = json.loads(asked.makefile().readline())
    pid = os.fork()
    if pid == 0:
        listening.close()
        asked.close()
        os.setsid()
        launch(order["argv"], order["env"], order["log"])
        sys.exit(0)
    asked.sendall(f"{pid}\n".encode())
    ended = status = 0
    while not ended and not select.select([asked], [], [], POLL_S)[0]:
        ended, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if ended:
        asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def launch(argv: list[str], environment: dict[str, str], log: str) -> None:
    """In the child: what the command line `argv` does."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment)
    sys.argv = argv
    sys.modules["vllm.entrypoints.cli.main"].main()


if __name__ == "__main__":
    main(sys.argv[1])
