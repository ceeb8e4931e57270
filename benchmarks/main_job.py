"""Measures the main job's acceptance rows: one JSON line per row on stdout.

    python benchmarks/main_job.py [--row NAME] [--quick]

Rows: demo (a bare run to a verified commit), abstain (tuning what it tuned), wheel (the demo from a wheel in an empty
folder), crash (kill -9 at every boundary), help (start-up of the CLI), suite (the whole test-suite).
`--quick` runs those that take under a minute together. Absolute times are compared with the issue's limits only; the
machine's load is not corrected for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AUTOTUNE = (sys.executable, "-m", "autotune")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def call(*command: str | Path, cwd: Path, timeout_s: float = 1800) -> tuple[subprocess.CompletedProcess[str], float]:
    """The finished process and its wall-clock seconds; what it says on stderr goes on to ours."""
    started = time.monotonic()
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        timeout=timeout_s,
        check=False,
    )
    return done, time.monotonic() - started


def row(name: str, value: Any, goal: str, ok: bool | None, **more: Any) -> None:
    print(json.dumps({"row": name, "value": value, "goal": goal, "ok": ok, **more}), flush=True)


def demo_and_abstain(folder: Path) -> None:
    """Rows `demo` and `abstain`: the second needs what the first committed."""
    call(*AUTOTUNE, "models", "pull", "smollm2-135m", cwd=folder)  # the download isn't part of the 15 minutes
    done, seconds = call(*AUTOTUNE, "demo", "--dir", folder / "demo", "--json", cwd=folder)
    report = json.loads(done.stdout)
    verified, _ = call(*AUTOTUNE, "verify", "--runs", folder / "demo" / "runs", cwd=folder)
    ratio = next((c["ratio"] for c in report.get("comparisons", []) if c["metric"] == report["objective"]), None)
    ok = done.returncode == 0 and report["decision"] == "tuned" and verified.returncode == 0 and seconds <= 900
    more = {"decision": report["decision"], "objective_ratio": ratio, "verify_exit": verified.returncode}
    row("demo", round(seconds, 1), "exit 0, PASS, one commit, verify agrees, within 900 s", ok, **more)
    if report.get("commit") is None:
        row("abstain", None, "no commit, exit 0 or 3", None, why="the demo ended without a commit to tune again")
        return
    subprocess.run(["git", "merge", "--quiet", report["commit"]["branch"]], cwd=folder / "demo", check=True)
    again, seconds = call(
        *AUTOTUNE, "tune", "deployment.yaml", "--trials", "7", "--runs", "runs", "--json", cwd=folder / "demo"
    )
    second = json.loads(again.stdout)
    ok = again.returncode in (0, 3) and second["commit"] is None
    row("abstain", again.returncode, "no commit, exit 0 or 3", ok, seconds=round(seconds, 1), why=second["sentence"])


def wheel(folder: Path) -> None:
    """Row `wheel`: the demo from a wheel in an empty folder, in an environment of its own."""
    call(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT, cwd=folder)
    built = next((folder / "dist").glob("*.whl"))
    call(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = (folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", built)
    call(*pip, cwd=folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    empty = folder / "empty"
    empty.mkdir()
    started = time.monotonic()
    done = subprocess.run(
        [folder / "venv/bin/autotune", "demo", "--json"],
        cwd=empty,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )
    decision = json.loads(done.stdout)["decision"]
    ok = done.returncode == 0 and decision == "tuned"
    row("wheel", round(time.monotonic() - started, 1), "exit 0 and a PASS from a wheel", ok, decision=decision)


def crash(folder: Path) -> None:
    """Row `crash`: SIGKILL once at every boundary of every effect, and once in every load."""
    sys.path.insert(0, str(ROOT))
    from tests.autotune.conftest import DEPLOYMENT, commit_deployment, git
    from tests.autotune.test_crash import engines_of
    from tests.tiny_model import build_tiny_model

    model = build_tiny_model(folder / "tiny")
    deployment = commit_deployment(folder / "service", DEPLOYMENT.format(model=model))
    driver = ROOT / "tests/autotune/crash_driver.py"
    done, seconds = call(sys.executable, driver, deployment, folder / "runs", "all", cwd=folder)
    result = json.loads(done.stdout.splitlines()[-1])
    time.sleep(5)
    left = engines_of(model)
    verified, _ = call(*AUTOTUNE, "verify", "--runs", folder / "runs", cwd=folder)
    commits = git(deployment.parent, "rev-list", "--count", "main..autotune/tiny-chat/interactive-latency")
    ok = result["exit_code"] == 0 and verified.returncode == 0 and commits == "1" and not left
    goal = "the run completes, one commit, verify agrees, no process left after 5 s"
    row("crash", len(result["killed_at"]), goal, ok, commits=int(commits), left=left, seconds=round(seconds, 1))


def help_time(folder: Path) -> None:
    """Row `help`: median wall clock of `autotune --help`."""
    seconds = [call(*AUTOTUNE, "--help", cwd=folder)[1] for _ in range(11)]
    median = statistics.median(seconds)
    row("help", round(median, 3), "< 0.5 s", median < 0.5, spread=[round(min(seconds), 3), round(max(seconds), 3)])


def suite(folder: Path) -> None:
    """Row `suite`: `make test` in this checkout."""
    done, seconds = call("make", "test", cwd=ROOT)
    sys.stderr.write(done.stdout[-2000:])
    row("suite", round(seconds, 1), "passes in under 1200 s", done.returncode == 0 and seconds < 1200)


ROWS: dict[str, Callable[[Path], None]] = {
    "demo": demo_and_abstain,
    "wheel": wheel,
    "crash": crash,
    "help": help_time,
    "suite": suite,
}
QUICK = ("help",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=[*ROWS, "abstain"])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    wanted = {"abstain": "demo"}.get(arguments.row, arguments.row)
    for name, measure in ROWS.items():
        if wanted not in (None, name):
            continue
        if arguments.quick and name not in QUICK:
            for each in ("demo", "abstain") if name == "demo" else (name,):
                row(each, None, "", None, why="takes longer than a minute; run it without --quick")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                measure(Path(folder))
            except (LookupError, ValueError, StopIteration, subprocess.SubprocessError) as error:
                row(name, None, "", False, why=f"couldn't be measured: {type(error).__name__}: {error}")


main()
