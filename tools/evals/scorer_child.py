"""The other side of `python_scorer`: runs a user's function where it has no network, few rights and not for long.

Started as a script by its path, with nothing but the standard library. stdin is one JSON object; the result goes to
the file descriptor that it names. What the user's code prints goes to stderr.
"""

import ctypes
import importlib.util
import json
import os
import resource
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NO_NETWORK = 97
"Exit status: the kernel gives us no empty network."


def leave_the_network() -> None:
    """A user namespace and a network namespace of our own: in it not even the loopback is up. See namespaces(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        os._exit(NO_NETWORK)


def limit(memory_bytes: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    leave_the_network()
    if len(sys.argv) > 1:
        return  # only asked whether it works
    job = json.load(sys.stdin)
    result = os.fdopen(job["result_fd"], "w")
    os.set_inheritable(result.fileno(), False)
    os.dup2(2, 1)
    limit(job["memory_bytes"], job["seconds"])
    spec = importlib.util.spec_from_file_location("scorer", job["file"])
    if spec is None or spec.loader is None:
        sys.exit(f"{job['file']}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["scorer"] = module
    spec.loader.exec_module(module)
    function = getattr(module, job["function"])
    scores = [function(item, answer) for item, answer in job["pairs"]]
    json.dump(scores, result)
    result.close()


if __name__ == "__main__":
    main()
