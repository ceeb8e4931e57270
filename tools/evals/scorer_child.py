"""The other side of `python_scorer`: runs a user's function where it has no network, few rights and not for long.

Started as a script by its path, with nothing but the standard library. stdin is one JSON object; the result goes to
the file descriptor that it names. What the user's code prints goes to stderr.

Three processes: this one leaves the network and its process namespace, and waits. Its child is the first of the new
namespace and does nothing but wait for the second, which runs the user's code. When the first ends, the kernel ends
whatever lives in the namespace, in whatever session or group it is. See namespaces(7), pid_namespaces(7).
"""

import ctypes
import json
import os
import resource
import signal
import sys
import types
from typing import Any

CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CAPABILITY_VERSION_3 = 0x20080522
NO_ISOLATION = 97
"Exit status: the kernel gives us no namespaces."
SIGNALLED = 128
"Added to the signal that ended the user's code."
MOST_FILE_BYTES = 64 << 20
MOST_PROCESSES = 512

LIBC = ctypes.CDLL(None, use_errno=True)


def leave_the_machine() -> None:
    """A user, a network and a process namespace of our own: in it not even the loopback is up."""
    if not sys.platform.startswith("linux") or LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID) != 0:
        os._exit(NO_ISOLATION)


def waiting_for(child: int) -> int:
    """The exit status of `child`; SIGNALLED and more if a signal ended it."""
    while True:
        ended, status = os.wait()  # the first of a namespace inherits every orphan
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


def drop_rights() -> None:
    """Whoever makes a user namespace may do anything in it. A user's code may nothing."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if LIBC.capset(header, (ctypes.c_uint32 * 6)()) != 0 or LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        os._exit(NO_ISOLATION)


def limit(memory_bytes: int, seconds: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
        (resource.RLIMIT_NPROC, MOST_PROCESSES),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def score(job: dict[str, Any]) -> None:
    """Run the text that was hashed, whatever its file holds by now."""
    result = os.fdopen(job["result_fd"], "w")
    os.set_inheritable(result.fileno(), False)
    os.dup2(2, 1)
    drop_rights()
    limit(job["memory_bytes"], job["seconds"])
    module = types.ModuleType("scorer")
    module.__file__ = job["file"]
    sys.modules["scorer"] = module
    exec(compile(job["source"], job["file"], "exec"), module.__dict__)
    function = getattr(module, job["function"])
    scores = [function(item, answer) for item, answer in job["pairs"]]
    json.dump(scores, result)
    result.close()


def main() -> None:
    leave_the_machine()
    if len(sys.argv) > 1:
        return  # only asked whether it works
    job = json.load(sys.stdin)
    first = os.fork()
    if first:
        os.close(job["result_fd"])
        code = waiting_for(first)
        os._exit(code)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    second = os.fork()
    if second:
        os.close(job["result_fd"])
        os._exit(waiting_for(second))
    score(job)


if __name__ == "__main__":
    main()
