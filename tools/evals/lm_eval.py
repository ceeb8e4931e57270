"""LmEval: lm-evaluation-harness as a process of an environment of its own; only its result files are read."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from tools.errors import UserError
from tools.evals.asker import unreachable
from tools.evals.declared import LmEval
from tools.evals.item import KEPT_TEXT
from tools.evals.results import Answer, TaskResult
from tools.targets.target import Endpoint

__all__ = ["Harness", "lm_eval_argv", "read_harness", "read_samples"]

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "HF_HOME", "HF_DATASETS_CACHE", "HF_HUB_CACHE")
_KEPT_OUTPUT = 600
_ROUNDING = 1e-6


def lm_eval_argv(declared: LmEval, endpoint: Endpoint, folder: Path, out: Path) -> list[str]:
    """The command that evaluates `endpoint` and writes its results and samples below `out`."""
    model_args = {"model": endpoint.model, "base_url": f"{endpoint.base_url}/v1/completions", "num_concurrent": "8"}
    model_args["tokenized_requests"] = "False"
    if declared.tokenizer is not None:
        local = folder / declared.tokenizer
        model_args["tokenizer"] = str(local.resolve()) if local.is_dir() else declared.tokenizer
    argv = [*declared.command, "--model", "local-completions"]
    argv += ["--model_args", ",".join(f"{name}={value}" for name, value in model_args.items())]
    argv += ["--tasks", ",".join(declared.tasks), "--limit", str(declared.limit)]
    argv += ["--output_path", str(out), "--log_samples", "--seed", "1234"]
    return [*argv, "--include_path", str((folder / declared.include).resolve())] if declared.include else argv


@dataclass(frozen=True)
class Harness:
    """A declared harness that is there, and the digests of the tasks that it brings."""

    declared: LmEval
    folder: Path
    "The deployment's, which paths are relative to."
    files: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> list[Any]:
        return [self.declared.model_dump(mode="json"), [list(file) for file in self.files]]

    def run(self, endpoint: Endpoint) -> TaskResult:
        """What it says of `endpoint`, sample by sample.

        Raises:
            LaunchFailed: kind `unreachable`; it failed, took too long, or wrote no samples.
        """
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary)
            _run(self.declared, lm_eval_argv(self.declared, endpoint, self.folder, out), endpoint, self.folder)
            return read_samples(out, self.declared)


def read_harness(declared: LmEval, folder: Path) -> Harness:
    """The harness that `declared` names, its own tasks beside or below `folder`.

    Raises:
        UserError: its command or its tasks aren't there.
    """
    if shutil.which(declared.command[0]) is None:
        raise UserError(
            f"evals: {declared.name}: expected a command at {declared.command[0]}, found none that can be run; install "
            "lm-eval with its extra `api` in an environment of its own and name its `lm_eval` as command:"
        )
    if declared.include is None:
        return Harness(declared, folder)
    tasks = folder / declared.include
    if not tasks.is_dir():
        raise UserError(f"evals: {declared.name}: expected a folder of tasks at {tasks}, found none")
    names = sorted(path for path in tasks.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    digests = ((str(path.relative_to(tasks)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in names)
    return Harness(declared, folder, tuple(digests))


def _run(declared: LmEval, argv: list[str], endpoint: Endpoint, folder: Path) -> None:
    env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    env |= {"OPENAI_API_KEY": endpoint.api_key or "none", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=declared.time_limit_s)
    except subprocess.TimeoutExpired:
        raise unreachable(f"evals: {declared.name}: lm_eval took more than {declared.time_limit_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        tail = output.decode(errors="replace").strip()[-_KEPT_OUTPUT:]
        raise unreachable(f"evals: {declared.name}: lm_eval ended with status {process.returncode}: {tail}")


def read_samples(out: Path, declared: LmEval) -> TaskResult:
    """The samples that lm_eval logged below `out`, each with the declared metric, checked against its own results.

    Raises:
        LaunchFailed: kind `unreachable`; a task has none, they lack the metric, or their mean isn't what it reports.
    """
    answers: dict[str, Answer] = {}
    for task in declared.tasks:
        samples = [sample for sample in _samples(out, task, declared) if sample.get("filter") == declared.filter]
        if not samples:
            raise unreachable(f"evals: {declared.name}: no samples of {task} passed the filter {declared.filter}")
        scores = [_score(sample, task, declared) for sample in samples]
        reported = _reported(out, task, declared)
        if reported is None or abs(fmean(scores) - reported) > _ROUNDING:
            raise unreachable(
                f"evals: {declared.name}: the samples of {task} have a mean {declared.metric} of {fmean(scores):.4f}, "
                f"its results say {reported}"
            )
        for sample, score in zip(samples, scores, strict=True):
            answers[f"{task}/{sample.get('doc_id')}"] = Answer(score, str(sample.get("resps"))[:KEPT_TEXT])
    return TaskResult(answers)


def _samples(out: Path, task: str, declared: LmEval) -> list[dict[str, Any]]:
    """A file is named by task and time: `arc` isn't to read those of `arc_easy`. A group has none of its own."""
    return [orjson.loads(line) for line in _newest(out, f"samples_{task}_[0-9]*T*.jsonl", declared).splitlines()]


def _reported(out: Path, task: str, declared: LmEval) -> float | None:
    results = orjson.loads(_newest(out, "results_*.json", declared)).get("results", {}).get(task, {})
    value = results.get(f"{declared.metric},{declared.filter}")
    return float(value) if isinstance(value, int | float) else None


def _newest(out: Path, pattern: str, declared: LmEval) -> bytes:
    found = sorted(out.rglob(pattern))
    if not found:
        raise unreachable(f"evals: {declared.name}: lm_eval wrote no {pattern}")
    return found[-1].read_bytes()


def _score(sample: Mapping[str, Any], task: str, declared: LmEval) -> float:
    score = sample.get(declared.metric)
    if not isinstance(score, int | float) or not 0 <= score <= 1:
        known = sorted(name for name, value in sample.items() if isinstance(value, float))
        raise unreachable(
            f"evals: {declared.name}: expected {declared.metric}, 0 to 1, in every sample of {task}, found "
            f"{score!r}; they have {', '.join(known) or 'no numbers'}"
        )
    return float(score)
