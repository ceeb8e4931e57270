"""Server processes: ready or classified, and nothing of them left, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.targets import supervise
from tools.targets.failures import classify
from tools.targets.process import ServerProcess, allowed_environment, free_port, port_is_open
from tools.targets.target import LaunchFailed

SERVER = """
import http.server, os, signal, sys
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in sys.argv and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    while True: signal.pause()
print("hello", *(sys.stdin.read(), os.environ.get("OPENAI_API_KEY")), flush=True)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def start(log: Path, port: int, *modes: str) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", SERVER, str(port), *modes], log=log)


def members(session: int) -> list[int]:
    """Processes of a session, zombies left out, from the OS's own table."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(sid) == session and state != "Z":
                found.append(int(entry.name))
    return found


def eventually(check: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not check():
        time.sleep(0.02)
    return check()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


def test_a_server_becomes_ready_and_leaves_no_process_and_no_port(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    port = free_port()
    with start(log, port) as server:
        assert server.wait_ready(f"http://127.0.0.1:{port}", timeout_s=30) > 0
        assert members(server.pid) == [server.pid] and port_is_open(port)
    assert server.exit_code == 128 + signal.SIGTERM
    assert server.stop() == server.exit_code  # stopping twice does nothing
    assert members(server.pid) == [] and not port_is_open(port)
    assert server.log_tail().splitlines()[0] == "hello  None"  # empty stdin, no secret


def test_a_stubborn_server_and_a_child_that_left_its_session_are_killed(log: Path) -> None:
    port = free_port()
    with start(log, port, "stubborn", "child") as server:
        server.wait_ready(f"http://127.0.0.1:{port}", timeout_s=30)
        strays = children_of(server.pid)
        assert len(strays) == 1
        assert server.stop(grace_s=0.2) == 128 + signal.SIGKILL
    assert not port_is_open(port) and not Path(f"/proc/{strays[0]}").exists()


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(("victim", "mode"), [("parent", "child"), ("supervisor", "stubborn")])
def test_nothing_outlives_a_kill_minus_nine(tmp_path: Path, victim: str, mode: str) -> None:
    port = free_port()
    story = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "from tools.targets.process import ServerProcess\n"
        "server = ServerProcess([sys.executable, *sys.argv[3:]], log=pathlib.Path(sys.argv[2]))\n"
        "server.wait_ready('http://127.0.0.1:' + sys.argv[5], timeout_s=30)\n"
        "print(server.pid, server._supervisor.pid, flush=True); sys.stdin.read()\n"
    )
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-c", story, str(root), str(tmp_path / "log"), "-c", SERVER, str(port), mode]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        server, supervisor = map(int, parent.stdout.readline().split())
        strays = [Path(f"/proc/{pid}") for pid in children_of(server)]
        assert port_is_open(port) and len(strays) == (mode == "child")
        os.kill(parent.pid if victim == "parent" else supervisor, signal.SIGKILL)
        gone = eventually(lambda: not port_is_open(port) and not members(server))
        parent.kill()
    assert gone and eventually(lambda: not any(stray.exists() for stray in strays))


def test_a_server_that_dies_early_is_classified_with_its_last_words(log: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('engine: error: bad_config: block_size must be 16')"]
    server = ServerProcess(argv, log=log)
    with pytest.raises(LaunchFailed, match="block_size must be 16") as failure:
        server.wait_ready(f"http://127.0.0.1:{free_port()}", timeout_s=60)
    assert (failure.value.kind, server.exit_code) == ("bad_config", 1)
    assert failure.value.log_tail.startswith("engine: error")


def test_a_server_that_never_becomes_ready_is_stopped_at_the_limit(log: Path) -> None:
    server = ServerProcess([sys.executable, "-c", "import time; time.sleep(600)"], log=log)
    with pytest.raises(LaunchFailed, match=r"not ready within 0\.3 s") as failure:
        server.wait_ready(f"http://127.0.0.1:{free_port()}", timeout_s=0.3)
    assert failure.value.kind == "timeout"
    assert members(server.pid) == []


def test_a_command_that_doesnt_exist_is_a_failure_and_not_an_exception_of_python(log: Path) -> None:
    server = ServerProcess(["no-such-command-here"], log=log)
    with pytest.raises(LaunchFailed) as failure:
        server.wait_ready(f"http://127.0.0.1:{free_port()}", timeout_s=60)
    assert (failure.value.kind, server.exit_code) == ("crash", 127)
    assert "can't start no-such-command-here" in failure.value.log_tail


def test_a_talkative_server_fills_two_capped_files_and_its_last_line_is_kept(log: Path) -> None:
    talk = "for i in range(20000): print('line', i)"
    server = ServerProcess([sys.executable, "-c", talk], log=log, log_cap_bytes=10_000)
    assert eventually(lambda: server.exit_code is not None, 30)
    server.stop()
    assert server.log_tail(1) == "line 19999"
    assert sum(file.stat().st_size for file in log.parent.iterdir()) <= 20_000


def test_the_exit_status_of_the_command_is_passed_on() -> None:
    argv = [sys.executable, "-I", "-S", supervise.__file__, "--", sys.executable, "-c", "import sys; sys.exit(7)"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as supervisor:
        assert supervisor.wait(30) == 7


def test_only_harmless_variables_reach_a_server() -> None:
    given = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        "HF_HOME": "/h",
        "HF_TOKEN": "s",
        "LD_PRELOAD": "x",
        "PYTHONPATH": "y",
    }
    assert allowed_environment(given) == {"PATH": "/bin", "OMP_NUM_THREADS": "1", "HF_HOME": "/h"}


@pytest.mark.parametrize(
    ("exit_code", "log_text", "timed_out", "kind"),
    [
        (2, "noise\nengine: error: oom: the KV cache needs 9 GiB\n", False, "oom"),
        (2, "engine: error: invented: x\n", False, "crash"),
        (1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", False, "oom"),
        (1, "OSError: [Errno 12] Cannot allocate memory", False, "oom"),
        (-9, "loading weights", False, "oom"),
        (137, "loading weights", False, "oom"),
        (1, "OSError: [Errno 98] Address already in use", False, "port_taken"),
        (1, "error: unrecognized arguments: --max-seq", False, "bad_config"),
        (1, "gguf: failed to load model", False, "model_missing"),
        (None, "loading", True, "timeout"),
        (None, "RuntimeError: CUDA out of memory", True, "oom"),
        (139, "", False, "crash"),
        (1, "Traceback", False, "crash"),
    ],
)
def test_failures_are_sorted_into_kinds(exit_code: int | None, log_text: str, timed_out: bool, kind: str) -> None:
    assert classify(exit_code, log_text, timed_out)[0] == kind
