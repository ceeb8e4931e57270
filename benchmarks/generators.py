"""Load generators against one mock server: ours and the peers', each with its own report read back.

All send the same closed loop of streamed chat completions; what each reports is mapped to our definitions by
`tools.formats`, which says where a tool's number is another number under the same name.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.peers import OFFLINE, ROOT, Unmeasurable, executable, model_dir, run
from tools.formats import ForeignSummary, Reading, read
from tools.measure import Measurement, WorkloadSpec, materialise, summarise
from tools.measure.client import drive
from tools.measure.dialect import Dialect
from tools.measure.mock import MODEL
from tools.measure.self_calibration import mock_server
from tools.targets.target import Endpoint

__all__ = ["GENERATORS", "Closed", "Run", "mock_on", "our_floor_rate"]


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed loop of streamed chats with fixed lengths."""

    users: int
    requests: int
    output_tokens: int
    input_tokens: int = 64


@dataclass(frozen=True, slots=True)
class Run:
    """What one generator found."""

    reported: Mapping[str, float]
    "Its own numbers, under our flat names."
    notes: Mapping[str, str]
    "Where its number is another one under the same name."
    chunks: int
    wall_s: float
    "From the first send to the last end, by its own clock."
    cpu_s: float
    "Of all its processes, from start to end."


@contextmanager
def mock_on(cores: set[int] | None, *flags: str, ttft_ms: float, itl_ms: float) -> Iterator[Endpoint]:
    """A mock server pinned to `cores`."""
    before = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        try:
            os.sched_setaffinity(0, cores or before)
            endpoint = stack.enter_context(mock_server(*flags, ttft_ms=ttft_ms, itl_ms=itl_ms))
        finally:
            os.sched_setaffinity(0, before)
        yield endpoint


def ours(endpoint: Endpoint, load: Closed, folder: Path, cores: set[int]) -> Run:
    """In a process of its own, as the others are."""
    out = folder / "ours.json"
    program = (
        "import sys; from pathlib import Path; from benchmarks.generators import drive_ours; "
        "drive_ours(*sys.argv[1:4], *map(int, sys.argv[4:]))"
    )
    arguments = [endpoint.base_url, endpoint.model, str(out), load.users, load.requests, load.output_tokens]
    cpu_s = _measured([sys.executable, "-c", program, *map(str, [*arguments, load.input_tokens])], cores)
    measurement = Measurement.from_json(json.loads(out.read_text()))
    reading = Reading("autotune", "", endpoint.model, str(out), measurement, None)
    return _run(reading, summarise(measurement), {}, cpu_s)


def drive_ours(url: str, model: str, out: str, users: int, requests: int, output: int, prompt: int) -> None:
    """The plain dialect, as the others speak it: neither token ids nor running usage are asked for."""
    spec = {"requests": requests, "prompt_tokens": prompt, "output_tokens": output, "timeout_s": 300}
    workload = materialise(
        WorkloadSpec.model_validate({**spec, "arrivals": {"kind": "closed", "concurrency": users}}), 1
    )
    load = drive(Endpoint(url, model), workload, dialect=Dialect(("ignore_eos", "temperature")))
    Path(out).write_text(json.dumps(Measurement.of(workload, load, config_digest="").to_json()))


def vllm(endpoint: Endpoint, load: Closed, folder: Path, cores: set[int]) -> Run:
    out = folder / "vllm.json"
    command = [executable("venvs", "vllm", "bin", "vllm"), "bench", "serve", "--backend", "openai-chat"]
    command += ["--base-url", endpoint.base_url, "--endpoint", "/v1/chat/completions", "--model", endpoint.model]
    command += ["--tokenizer", str(model_dir()), "--dataset-name", "random", "--random-range-ratio", "0"]
    command += ["--random-input-len", str(load.input_tokens), "--random-output-len", str(load.output_tokens)]
    command += ["--ignore-eos", "--num-prompts", str(load.requests), "--max-concurrency", str(load.users)]
    command += ["--num-warmups", "1", "--disable-tqdm", "--percentile-metrics", "ttft,tpot,itl,e2el"]
    command += ["--metric-percentiles", "50,99", "--save-result", "--save-detailed", "--result-dir", str(folder)]
    command += ["--result-filename", out.name]
    cpu_s = _measured(command, cores, VLLM_NO_USAGE_STATS="1", VLLM_PLUGINS="")
    return _theirs(out, cpu_s)


def guidellm(endpoint: Endpoint, load: Closed, folder: Path, cores: set[int]) -> Run:
    out = folder / "guidellm.json"
    command = [executable("venvs", "guidellm", "bin", "guidellm"), "run", "--backend"]
    command += [f"kind=openai_http,target={endpoint.base_url},model={endpoint.model}"]
    command += ["--profile", f"kind=concurrent,streams={load.users}"]
    command += ["--constraint", f"kind=max_requests,count={load.requests}"]
    command += ["--tokenizer", f"kind=hf_auto,model={model_dir()}"]
    tokens = f"prompt_tokens={load.input_tokens},output_tokens={load.output_tokens}"
    command += ["--data", f"kind=synthetic_text,{tokens}", "--output", f"kind=json,path={out}", "--disable-progress"]
    return _theirs(out, _measured(command, cores))


def aiperf(endpoint: Endpoint, load: Closed, folder: Path, cores: set[int]) -> Run:
    out = folder / "aiperf"
    command = [executable("venvs", "aiperf", "bin", "aiperf"), "profile", "--model", endpoint.model]
    command += ["--url", endpoint.base_url, "--endpoint-type", "chat", "--streaming", "--tokenizer", str(model_dir())]
    command += ["--isl", str(load.input_tokens), "--isl-stddev", "0", "--osl", str(load.output_tokens)]
    command += ["--osl-stddev", "0", "--extra-inputs", "ignore_eos:true", "--concurrency", str(load.users)]
    command += ["--request-count", str(load.requests), "--random-seed", "1", "--ui", "none"]
    command += ["--artifact-dir", str(out)]
    cpu_s = _measured(command, cores, offline=False)  # said to be offline, it takes no local tokenizer
    return _theirs(next(out.rglob("profile_export_aiperf.json")), cpu_s)


GENERATORS: Mapping[str, Callable[[Endpoint, Closed, Path, set[int]], Run]] = {
    "autotune": ours,
    "vllm": vllm,
    "guidellm": guidellm,
    "aiperf": aiperf,
}


def _theirs(path: Path, cpu_s: float) -> Run:
    reading = read(path)
    theirs = reading.theirs or ForeignSummary({}, {})
    return _run(reading, theirs.metrics, theirs.notes, cpu_s)


def _run(reading: Reading, reported: Mapping[str, float], notes: Mapping[str, str], cpu_s: float) -> Run:
    """Chunks and wall time come from the records, which every tool writes."""
    if reading.measurement is None:
        raise Unmeasurable(f"{reading.source}: no records in it")
    records = [record for record in reading.measurement.records if record.outcome == "ok"]
    if not records:
        raise Unmeasurable(f"{reading.source}: no request was answered")
    wall_s = max(record.end_s for record in records) - min(record.sent_s for record in records)
    return Run(reported, notes, sum(record.output_tokens or 0 for record in records), wall_s, cpu_s)


def _measured(command: list[str], cores: set[int], *, offline: bool = True, **variables: str) -> float:
    """CPU seconds of a command and all that it started."""
    inherited = {name: value for name, value in os.environ.items() if name not in OFFLINE}
    environment = {**inherited, **(OFFLINE if offline else {}), "OMP_NUM_THREADS": "1", **variables}
    environment["PYTHONPATH"] = str(ROOT)
    pinned = ["taskset", "-c", ",".join(map(str, sorted(cores))), *command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done: subprocess.CompletedProcess[str] = run(pinned, timeout_s=500, environment=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise Unmeasurable(f"{Path(command[0]).name} failed: {done.stdout[-400:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def our_floor_rate(endpoint: Endpoint, load: Closed, folder: Path, cores: set[int]) -> float:
    """Chunks per second that our client takes on `cores`."""
    found = ours(replace(endpoint, model=MODEL), load, folder, cores)
    return found.chunks / found.wall_s
