"""Probe: measures this machine's roofline.

It starts a process and keeps the cores busy, so the package doesn't re-export it: who proposes and who decides never
import it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.errors import UserError
from tools.profile.roofline import Roofline

__all__ = ["measure_roofline"]


def measure_roofline(
    *, device: str = "cpu", threads: int | None = None, seconds: float = 2.0, step_bytes: int = 0
) -> Roofline:
    """Measure this machine for about `seconds`, in a process of its own, with `threads` or all usable cores.

    Args:
        step_bytes: what a step of the model reads. A smaller model may stay in the processor's caches, which are faster
            than memory: its bandwidth is measured too, and the better one counts.

    Raises:
        UserError: the measuring process failed; the message ends with its last words.
    """
    threads = threads or len(os.sched_getaffinity(0))
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-P", "-m", "tools.profile.peak", device, str(threads), str(seconds), str(step_bytes)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if run.returncode:
        said = "\n".join(run.stderr.strip().splitlines()[-3:])
        raise UserError(f"the machine's roofline couldn't be measured on {device} (exit {run.returncode}):\n{said}")
    return Roofline(**json.loads(run.stdout), device=device, threads=threads)
