"""Run a command so that nothing of it outlives whoever asked for it: `python -I -S supervise.py [options] -- argv...`

The standard input is the leash. When its other end closes, because the parent ended or was killed, the command's whole
process group gets SIGTERM, after 2 s SIGKILL, and is reaped; so is what left the group, as this process is the
subreaper.
A byte `K` on the leash kills at once. If the leash is a socket, the command's process id is written to it, as a line,
and it is closed at this end when the command has ended.

    --log PATH            collect the command's output in PATH, in place of passing it on
    --log-cap-bytes N     when PATH has grown to N, it becomes PATH.1 and a new PATH is begun: both hold 2 N at the most
    --cpus LIST           processors that the command may run on: `0,1,8`
    --numa-node N         the node whose memory it gets, and no other

The exit status is the command's; 128 + n if signal n ended it, 127 if it couldn't be started.
Only a few modules of the standard library are imported, so that this starts in some 20 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

__all__ = ["GRACE_S", "LEFTOVER_GRACE_S", "SET_MEMPOLICY", "main", "set_mempolicy"]

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL once the leash is cut."""

LEFTOVER_GRACE_S = 0.5
"""Between SIGTERM and SIGKILL for what stays in the group when the command itself has ended."""

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
"""Number of the system call on machines of each kind; the C library has no name for it."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MPOL_BIND = 2
_LEASH = 0
_CHUNK_BYTES = 1 << 16
_CHUNKS_AT_ONCE = 16
"""Of output, before signals and the leash are looked at again: a command may print without end."""
_ROUND_S = 0.001


class _Log:
    """A file that is begun anew when it is full; the one before stays beside it."""

    def __init__(self, path: str, cap_bytes: int) -> None:
        self.path = path
        self.cap_bytes = cap_bytes
        self.fd = self._begin()
        self.size = 0

    def write(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk or a folder that was deleted must not take the server down
            if self.size + len(chunk) > self.cap_bytes and self.size:
                os.replace(self.path, self.path + ".1")  # noqa: PTH105 (pathlib costs a third of the start-up)
                full, self.fd = self.fd, self._begin()
                os.close(full)
                self.size = 0
            self.size += os.write(self.fd, chunk)

    def _begin(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    options, command = _parse(argv)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    waker, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    log = _Log(options["--log"], int(options.get("--log-cap-bytes", str(8 << 20)))) if "--log" in options else None
    output, child_output = os.pipe2(os.O_CLOEXEC) if log else (-1, -1)
    child = _start(command, child_output, options.get("--cpus"), options.get("--numa-node"))
    if log:
        os.close(child_output)
        os.set_blocking(output, False)
    with contextlib.suppress(OSError):  # a leash that is a mere pipe can't be written to
        os.write(_LEASH, b"%d\n" % child)
    status = _watch(child, waker, output, log)
    with contextlib.suppress(OSError):
        os.close(_LEASH)  # so that whoever holds it learns at once that the command has ended
    _end_group(child, LEFTOVER_GRACE_S)
    _reap_the_rest()
    _drain(output, log)
    return status


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group alone is relied upon."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def set_mempolicy(node: int) -> None:
    """Let this process, and what it becomes and starts, have memory of NUMA node `node` alone (MPOL_BIND).

    Raises:
        OSError: the kernel has no such call, no such node, or none that this process may use.
    """
    number = SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(0, f"no system call for NUMA is known on a {os.uname().machine}")
    words = (ctypes.c_ulong * (node // 64 + 1))()
    words[node // 64] = 1 << node % 64
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel counts one bit more than it reads.
    if libc.syscall(number, _MPOL_BIND, words, ctypes.c_ulong(len(words) * 64 + 1)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _parse(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    if "--" not in argv or not argv[argv.index("--") + 1 :]:
        raise SystemExit("supervise: expected options, then --, then a command")
    split = argv.index("--")
    return dict(zip(argv[:split:2], argv[1:split:2], strict=True)), argv[split + 1 :]


def _start(command: list[str], output: int, cpus: str | None, numa_node: str | None) -> int:
    """Fork and exec `command` in a session of its own, tied to this process's life."""
    me = os.getpid()
    child = os.fork()
    if child:
        return child
    doing = f"start {command[0]}"
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(127)
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if output >= 0:
            os.dup2(output, 1)
            os.dup2(output, 2)
        if cpus is not None:
            doing = f"run on processors {cpus}"
            os.sched_setaffinity(0, map(int, cpus.split(",")))
        if numa_node is not None:
            doing = f"take the memory of NUMA node {numa_node}"
            set_mempolicy(int(numa_node))
        doing = f"start {command[0]}"
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"supervise: can't {doing}: {error.strerror}\n".encode())
    os._exit(127)


def _watch(child: int, waker: int, output: int, log: _Log | None) -> int:
    """Until the child ends: pass signals on, keep its output, and end its group when the leash is cut."""
    poller = select.poll()
    for fd in (_LEASH, waker, output) if log else (_LEASH, waker):
        poller.register(fd, select.POLLIN)
    kill_at = float("inf")
    while True:
        wait_ms = None if kill_at == float("inf") else max(0, int((kill_at - time.monotonic()) * 1000))
        for fd, _event in poller.poll(wait_ms):
            if fd == output and not _drain(output, log):
                poller.unregister(output)
            if fd == waker:
                for number in set(os.read(waker, 64)) - {signal.SIGCHLD}:
                    _signal_group(child, number)
            if fd == _LEASH:
                word = _read_leash()
                if word in (b"", b"K"):
                    poller.unregister(_LEASH)
                    _signal_group(child, signal.SIGKILL if word else signal.SIGTERM)
                    kill_at = time.monotonic() + GRACE_S
        if time.monotonic() >= kill_at:
            _signal_group(child, signal.SIGKILL)
            kill_at = float("inf")
        ended = _reap()  # also what the command's children left behind, which has become ours
        if ended is not None and child in ended:
            code = os.waitstatus_to_exitcode(ended[child])
            return code if code >= 0 else 128 - code


def _read_leash() -> bytes:
    try:
        return os.read(_LEASH, 1)
    except OSError:
        return b""


def _drain(output: int, log: _Log | None) -> bool:
    """Move what the pipe holds, or its first MiB, into the log; False once every writer has closed it."""
    for _ in range(_CHUNKS_AT_ONCE if log else 0):
        try:
            chunk = os.read(output, min(_CHUNK_BYTES, log.cap_bytes)) if log else b""
        except BlockingIOError:
            return True
        if not chunk:
            return False
        if log:
            log.write(chunk)
    return log is not None


def _signal_group(group: int, number: int) -> bool:
    """False where the group has no member left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # on some systems a group of zombies only
        return False
    return True


def _end_group(group: int, grace_s: float) -> None:
    """End what the command left behind in its group."""
    deadline = time.monotonic() + grace_s
    alive = _signal_group(group, signal.SIGTERM)
    while alive and time.monotonic() < deadline:
        _reap()
        alive = _signal_group(group, 0)
        time.sleep(0.01)
    _signal_group(group, signal.SIGKILL)


def _reap_the_rest() -> None:
    """Kill and reap whatever became our child by leaving its own parent."""
    while _reap() is not None:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
                children = file.read().split()
        except OSError:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        time.sleep(_ROUND_S)


def _reap() -> dict[int, int] | None:
    """Reap all that have ended: the status of each; None when no child is left."""
    ended: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        return ended or None
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
