"""Servers that misbehave: reaped, their logs capped, and told apart, whatever they do; and Ctrl-C at any moment."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.targets.process import ServerProcess, free_port, port_is_open
from tools.targets.target import FailureKind, LaunchFailed

SCRIPT = Path(__file__).with_name("hostile_server.py")
CAP = 200_000
MARK = "HOSTILE_TEST"
"A variable by which everything that a server leaves behind is found, whichever session it has moved to."


class Hostile:
    """A hostile server with a mark of its own."""

    def __init__(self, log: Path, *modes: str) -> None:
        self.port = free_port()
        self.mark = f"{os.getpid()}-{self.port}"
        argv = [sys.executable, "-I", "-S", str(SCRIPT), str(self.port), *modes]
        self.process = ServerProcess(argv, log=log, env={**os.environ, MARK: self.mark}, log_cap_bytes=CAP)

    def wait_ready(self, timeout_s: float = 60.0) -> float:
        return self.process.wait_ready(f"http://127.0.0.1:{self.port}", timeout_s=timeout_s)

    def left(self) -> list[int]:
        """Processes that carry the mark, the supervisor aside."""
        return marked(self.mark) if self.process.exit_code is not None else []


def marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def eventually(check: Callable[[], bool], within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not check():
        time.sleep(0.02)
    return check()


def on_disk(log: Path) -> int:
    return sum(file.stat().st_size for file in log.parent.iterdir())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


@pytest.fixture
def start(log: Path) -> Iterator[Callable[..., Hostile]]:
    servers: list[Hostile] = []

    def starting(*modes: str) -> Hostile:
        servers.append(Hostile(log, *modes))
        return servers[-1]

    yield starting
    for server in servers:
        server.process.stop(grace_s=0.0)
        assert server.left() == [] and not port_is_open(server.port)


@pytest.mark.parametrize("modes", ["ignore", "heir", "children", "moving", "flood", "ignore stray children flood"])
def test_a_ready_server_is_stopped_with_all_that_it_started(
    start: Callable[..., Hostile], log: Path, modes: str
) -> None:
    server = start(*modes.split())
    server.wait_ready()
    assert len(marked(server.mark)) > 1  # the supervisor and it, at the least
    server.process.stop(grace_s=0.1)
    code = server.process.exit_code
    # Its supervisor, which reaps, came to its own end: it wasn't the one that had to be killed.
    assert code in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
    assert server.left() == [] and not port_is_open(server.port)
    assert on_disk(log) <= 2 * CAP


@pytest.mark.parametrize(
    ("modes", "kind", "said"),
    [
        ("mute", "timeout", "not ready within"),
        ("busy heir", "timeout", "not ready within"),
        ("trickle", "timeout", "not ready within"),
        ("ignore stray children flood mute", "timeout", "not ready within"),
    ],
)
def test_a_server_that_never_becomes_ready_is_reaped_at_the_limit(
    start: Callable[..., Hostile], log: Path, modes: str, kind: FailureKind, said: str
) -> None:
    server = start(*modes.split())
    with pytest.raises(LaunchFailed, match=said) as failure:
        server.wait_ready(timeout_s=0.6)
    assert failure.value.kind == kind
    assert server.left() == [] and not port_is_open(server.port)
    assert on_disk(log) <= 2 * CAP


def test_a_flood_is_capped_on_disk_while_it_lasts(start: Callable[..., Hostile], log: Path) -> None:
    server = start("flood")
    server.wait_ready()
    older = log.with_name(log.name + ".1")
    assert eventually(older.exists)
    largest, before, begun = 0, older.stat().st_mtime_ns, 0
    while begun < 5:  # it was begun anew five times, and never grew beyond the cap
        for file in (older, log):
            with contextlib.suppress(FileNotFoundError):  # between the one and the other
                largest = max(largest, file.stat().st_size)
        now = older.stat().st_mtime_ns
        begun, before = begun + (now != before), now
    assert CAP / 2 < largest <= CAP
    assert server.process.log_tail(2).endswith("xxx")


@pytest.mark.parametrize("modes", ["daemon", "daemon ignore", "daemon mute"])
def test_a_daemon_is_no_server_of_ours_and_is_reaped(start: Callable[..., Hostile], modes: str) -> None:
    server = start(*modes.split())
    with pytest.raises(LaunchFailed, match="stay in the foreground") as failure:
        server.wait_ready()
    assert (failure.value.kind, server.process.exit_code) == ("crash", 0)
    assert server.left() == []


def test_a_server_that_dies_once_it_is_ready_leaves_nothing(start: Callable[..., Hostile]) -> None:
    server = start("heir", "children", "dies")
    server.wait_ready()
    assert eventually(lambda: server.process.exit_code is not None)
    assert server.process.exit_code == 1 and server.left() == [] and not port_is_open(server.port)
    failure = server.process.failure(1)
    assert failure.kind == "crash" and "device-side assert" in failure.log_tail


def test_a_stopped_server_is_ended(start: Callable[..., Hostile]) -> None:
    server = start()
    server.wait_ready()
    os.kill(server.process.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{server.process.pid}/stat")
    assert eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert server.process.stop(grace_s=0.1) == 128 + signal.SIGKILL


def test_the_group_of_a_server_whose_supervisor_was_killed_is_ended(start: Callable[..., Hostile]) -> None:
    server = start("children")
    server.wait_ready()
    os.kill(server.process._supervisor.pid, signal.SIGKILL)
    assert eventually(lambda: not port_is_open(server.port))
    assert server.process.stop() == -signal.SIGKILL
    assert eventually(lambda: server.left() == [])


def test_what_is_no_text_is_shown_as_text(start: Callable[..., Hostile]) -> None:
    server = start("binary")
    server.wait_ready()
    server.process.stop(grace_s=0.0)
    tail = server.process.log_tail()
    assert tail.startswith("red ") and " end " in tail
    assert all(char.isprintable() or char == "\n" for char in tail)


def test_a_log_that_cant_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchFailed, match=r"log .* can't be written"):
        Hostile(tmp_path / "file" / "log")


def test_a_log_whose_folder_is_deleted_takes_no_server_down(start: Callable[..., Hostile], log: Path) -> None:
    server = start("flood")
    server.wait_ready()
    for _ in range(1000):  # a log may be begun anew while its folder is emptied
        shutil.rmtree(log.parent, ignore_errors=True)
        if not log.parent.exists():
            break
    assert not log.parent.exists()
    time.sleep(0.2)
    assert server.process.exit_code is None and port_is_open(server.port)


STORY = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from tools.targets.process import ServerProcess
print("imported", flush=True)
with ServerProcess([sys.executable, "-I", "-S", *sys.argv[4:]], log=pathlib.Path(sys.argv[2])) as server:
    print("started", flush=True)
    if sys.argv[3] != "stop":
        server.wait_ready("http://127.0.0.1:" + sys.argv[5], timeout_s=300)
    server.wait_ready("http://127.0.0.1:" + sys.argv[5], timeout_s=300)
    print("stopping", flush=True)
    server.stop(grace_s=300)
"""


@pytest.mark.parametrize(("phase", "word"), [("start", "imported"), ("ready", "started"), ("stop", "stopping")])
def test_ctrl_c_ends_everything_in_each_phase(tmp_path: Path, phase: str, word: str) -> None:
    port = free_port()
    modes = ["ignore", "stray", "children", *(["mute"] if phase == "ready" else [])]
    argv = [str(Path(__file__).parents[2]), str(tmp_path / "log"), phase, str(SCRIPT), str(port), *modes]
    mark = f"{os.getpid()}-{port}"
    environment = {**os.environ, MARK: mark}  # servers get an environment without it; the story alone has it
    with subprocess.Popen(
        [sys.executable, "-c", STORY, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as story:
        assert story.stdout is not None and story.stderr is not None
        for line in story.stdout:
            if line.strip() == word:
                break
        if phase != "start":
            assert eventually(lambda: bool(running(port)))
        story.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in story.stderr.read()
    assert eventually(lambda: not running(port)) and not port_is_open(port)


def running(port: int) -> list[int]:
    """Processes of a hostile server on `port`, and their supervisor, by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(SCRIPT).encode() in words and str(port).encode() in words and b"-c" not in words[:2]:
                found.append(int(entry.name))
    return found
