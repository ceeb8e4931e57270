"""Row `external`: servers that somebody else runs, which change in the middle of a load, each named and nothing kept.

The tests that are part of `make test` are run; where the peers are, their real llama-server is restarted and killed
in the middle of a load too.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import Unmeasurable, executable, gguf, run
from benchmarks.table import Row
from tools.measure import WorkloadSpec
from tools.measure.workload import materialise
from tools.targets.external.spec import ExternalSpec
from tools.targets.external.target import ExternalTarget
from tools.targets.process import ServerProcess, allowed_environment, free_port
from tools.trial import run_trial

__all__ = ["row"]

FILES = ("tests/tools/test_external.py", "tests/tools/test_external_apply.py", "tests/autotune/test_external_bench.py")
LOAD = {
    "requests": 16,
    "prompt_tokens": 24,
    "output_tokens": 16,
    "arrivals": {"kind": "closed", "concurrency": 4},
    "timeout_s": 100,
}


def row(quick: bool) -> Row:
    """The tests, and without `quick` what a real llama-server that changes is said to have done."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *FILES]
    done = run(command, timeout_s=300)
    value = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    found: Row = {
        "row": "external",
        "value": value,
        "goal": "each change named, nothing measured across it kept",
        "ok": not done.returncode,
        "command": f"pytest {' '.join(FILES)}",
    }
    if done.returncode:
        return {**found, "why": done.stdout[-600:]}
    if quick:
        return found
    try:
        said = _changing_peer(executable("build-llama", "bin", "llama-server"), gguf())
    except Unmeasurable as reason:
        return {**found, "llama_server": str(reason)}
    named = "was started anew" in said["restarted"] and "doesn't answer" in said["killed"]
    return {**found, "llama_server": said, "ok": named}


def _changing_peer(program: str, model: Path) -> dict[str, str]:
    """What is said of a real server that is restarted, then killed, in the middle of a load."""
    port = free_port()
    spec = ExternalSpec(kind="external", url=f"http://127.0.0.1:{port}")
    words = [program, "--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--metrics", "-c", "4096"]
    words += ["-np", "4", "-t", str(min(4, os.cpu_count() or 1))]
    workload = materialise(WorkloadSpec.model_validate(LOAD))
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"

        def served() -> ServerProcess:
            process = ServerProcess(words, log=log, env=allowed_environment())
            process.wait_ready(spec.url, timeout_s=120)
            return process

        running = served()
        try:
            for change in ("restarted", "killed"):
                target = ExternalTarget(spec, None, {}, Path(folder))

                def turn(change: str = change) -> None:
                    nonlocal running
                    running.stop(grace_s=0.0)
                    if change == "restarted":
                        running = served()

                result = run_trial(
                    target, target.baseline, workload, log=log, ready_timeout_s=5, on_progress=_at(6, turn)
                )
                said[change] = result.failure.message if result.failure else "nothing"
        finally:
            running.stop(grace_s=0.0)
    return said


def _at(number: int, act: Callable[[], None]) -> Callable[[int, int, float | None], None]:
    """Told of progress, acts when so many requests have ended."""

    def told(done: int, total: int, seconds_left: float | None) -> None:
        if done == number:
            act()

    return told
