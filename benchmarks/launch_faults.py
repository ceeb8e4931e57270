"""LaunchFault: one way in which a start goes wrong, produced for real: the command, the broken model, the signal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from benchmarks.peers import OFFLINE, ROOT, executable, gguf, model_dir
from tools.targets.failure_signs import Cause
from tools.targets.process import ServerProcess, allowed_environment, free_port
from tools.targets.target import LaunchFailed

__all__ = ["Failed", "LaunchFault", "fail", "load_faults"]

_Model = Literal[
    "smol",
    "nowhere",
    "unknown_repository",
    "truncated",
    "unknown_architecture",
    "no_tokenizer",
    "broken_config",
    "no_weights",
    "another_format",
    "empty",
    "folder",
    "unreadable",
    "missing_shard",
    "other_geometry",
    "no_geometry",
]
_KEPT_BYTES = 10 << 20
"Of a model that was cut off: the header is whole, the tensors aren't."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limit(_Strict):
    """What the server may use."""

    address_gib: float | None = None
    processes: int | None = None
    files: int | None = None
    user: int | None = None
    "Another user than the one whom the files belong to."


class During(_Strict):
    """A signal in the middle of a start."""

    send: Literal["KILL", "STOP", "TERM", "SEGV", "INT", "ABRT"]
    after: str | None = None
    "A pattern that the log has to show."
    after_s: float = 0.0
    "Seconds to wait, counted from the pattern where there is one."


class LaunchFault(_Strict):
    """A case: how it is produced, and the causes that would be right."""

    id: str
    engine: Literal["vllm", "llamacpp", "bundled", "command"]
    expect: tuple[Cause, ...]
    model: _Model = "smol"
    command: tuple[str, ...] = ()
    "The whole command of an engine of no known kind."
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    limit: Limit = Limit()
    during: During | None = None
    port: Literal["free", "taken"] = "free"
    timeout_s: float = 150.0


@dataclass(frozen=True, slots=True)
class Failed:
    """What was left of a start that failed."""

    exit_code: int | None
    "None: it lived and wasn't ready in time."
    timed_out: bool
    log: str


def load_faults(path: Path) -> tuple[LaunchFault, ...]:
    """The cases of one batch."""
    return tuple(LaunchFault.model_validate(row) for row in yaml.safe_load(path.read_text()))


def fail(fault: LaunchFault, scratch: Path) -> Failed | None:
    """Start the server and wait until it has failed, as a launch of ours does; None where it became ready.

    Raises:
        Unmeasurable: the engine isn't installed here.
    """
    with _port(fault.port) as port:
        log = scratch / "logs" / f"{fault.id}.log"
        process = ServerProcess(_command(fault, port, scratch), log=log, env=_environment(fault))
        try:
            if fault.during:
                threading.Thread(target=_send, args=(process, fault.during), daemon=True).start()
            ready_path = "/health" if fault.port == "free" else "/never"  # whoever has the port already may answer
            process.wait_ready(f"http://127.0.0.1:{port}", path=ready_path, timeout_s=fault.timeout_s)
        except LaunchFailed as failure:
            timed_out = failure.message.startswith("not ready within")
            return Failed(None if timed_out else process.exit_code, timed_out, _read(log))
        finally:
            process.stop(grace_s=0.0)
        return None


def _read(log: Path) -> str:
    parts = (log.with_name(log.name + ".1"), log)
    return "".join(part.read_text(errors="replace") for part in parts if part.exists())


@contextmanager
def _port(kind: str) -> Iterator[int]:
    """A free port, or one on which something else listens that never answers."""
    if kind == "free":
        yield free_port()
        return
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield int(taken.getsockname()[1])


def _send(process: ServerProcess, during: During) -> None:
    """Wait for the moment, then signal the server itself, or the process of its group that works."""
    pattern = re.compile(during.after or "")
    while process.exit_code is None and not pattern.search(_read(process.log)):
        time.sleep(0.02)
    time.sleep(during.after_s)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.Signals["SIG" + during.send])


def _environment(fault: LaunchFault) -> dict[str, str]:
    shared = {**allowed_environment(), **OFFLINE, "PYTHONUNBUFFERED": "1"}
    if fault.engine == "vllm":
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        shared |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": "", "VLLM_CPU_KVCACHE_SPACE": "1"}
        shared |= {"VLLM_CPU_OMP_THREADS_BIND": cpus}
    if fault.engine == "bundled":
        shared["PYTHONPATH"] = str(ROOT)
    return {**shared, **fault.environment}


def _command(fault: LaunchFault, port: int, scratch: Path) -> list[str]:
    places = {
        "python": sys.executable,
        "port": str(port),
        "model": str(model_dir()),
        "nowhere": str(scratch / "nowhere"),
        "scratch": str(scratch),
    }
    if any("{peers}" in word for word in fault.command):
        places["peers"] = os.environ["PEERS"]
    arguments = [_filled(word, places) for word in fault.arguments]
    at = ["--host", "127.0.0.1", "--port", str(port)]
    match fault.engine:
        case "vllm":
            words = [executable("venvs", "vllm", "bin", "vllm"), "serve", _hf(fault.model, scratch), *at]
            words += ["--dtype", "bfloat16", "--max-model-len", "2048", "--enforce-eager", *arguments]
        case "llamacpp":
            words = [executable("build-llama", "bin", "llama-server"), *at, "--no-warmup"]
            words += ["-m", _gguf(fault.model, scratch), *arguments]
        case "bundled":
            words = [sys.executable, "-P", "-m", "engine", "serve", _hf(fault.model, scratch), *at, *arguments]
        case "command":
            words = [_filled(word, places) for word in fault.command]
    return [*_limits(fault.limit), *words]


def _filled(word: str, places: Mapping[str, str]) -> str:
    """`word` with the names in braces replaced; braces of JSON stay."""
    for name, place in places.items():
        word = word.replace("{" + name + "}", place)
    return word


def _limits(limit: Limit) -> list[str]:
    sizes = {"as": limit.address_gib and int(limit.address_gib * 2**30), "nproc": limit.processes}
    sizes["nofile"] = limit.files
    words = [f"--{name}={size}" for name, size in sizes.items() if size is not None]
    before = ["prlimit", *words] if words else []
    if limit.user is not None:
        before += ["setpriv", f"--reuid={limit.user}", f"--regid={limit.user}", "--clear-groups"]
    return before


def _hf(kind: _Model, scratch: Path) -> str:
    """A Hugging Face directory, sound or broken; the sound files are links."""
    if kind == "smol":
        return str(model_dir())
    if kind == "nowhere":
        return str(scratch / "nowhere")
    if kind == "unknown_repository":
        return "an-owner/no-such-model"
    folder = scratch / f"hf-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if kind == "empty":
        return str(folder)
    for file in model_dir().iterdir():
        (folder / file.name).symlink_to(file.resolve())
    config, weights = folder / "config.json", folder / "model.safetensors"
    settings = json.loads(config.read_text())
    match kind:
        case "truncated":
            _cut(weights)
        case "unknown_architecture":
            settings |= {"architectures": ["NoSuchForCausalLM"], "model_type": "no_such_model"}
            _write(config, json.dumps(settings))
        case "other_geometry":
            _write(config, json.dumps(settings | {"num_hidden_layers": 45, "hidden_size": 640}))
        case "no_geometry":
            for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
                settings.pop(name)
            _write(config, json.dumps(settings))
        case "no_tokenizer":
            for name in ("tokenizer.json", "tokenizer_config.json"):
                (folder / name).unlink()
        case "broken_config":
            _write(config, json.dumps(settings)[:-40])
        case "no_weights":
            weights.unlink()
        case "missing_shard":
            weights.unlink()
            shards = {"lm_head.weight": "model-00002-of-00002.safetensors"}
            _write(folder / "model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": shards}))
        case _:
            raise ValueError(f"no Hugging Face directory of the kind {kind}")
    return str(folder)


def _gguf(kind: _Model, scratch: Path) -> str:
    """A GGUF file, sound or broken. Keys are changed in place, to others of the same length."""
    if kind == "smol":
        return str(gguf())
    if kind in ("nowhere", "unknown_repository"):
        return str(scratch / "nowhere" / "model.gguf")
    if kind == "folder":
        return str(model_dir())
    if kind == "another_format":
        return str(model_dir() / "model.safetensors")
    path = scratch / f"{kind}.gguf"
    path.unlink(missing_ok=True)
    if kind == "empty":
        path.touch()
    elif kind == "truncated":
        path.symlink_to(gguf())
        _cut(path)
    else:
        renamed = {
            "unknown_architecture": (b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama", b"llama", b"llamx"),
            "no_tokenizer": (b"tokenizer.ggml.tokens", b"tokens", b"tokenz"),
            "no_geometry": (b"llama.block_count", b"count", b"counx"),
            "unreadable": (b"GGUF", b"GGUF", b"GGUF"),
        }
        key, old, new = renamed[kind]
        content = gguf().read_bytes()
        if key not in content:
            raise ValueError(f"{gguf()}: expected {key!r} in it")
        path.write_bytes(content.replace(key, key.replace(old, new), 1))
    if kind == "unreadable":
        path.chmod(0o600)
    return str(path)


def _cut(link: Path) -> None:
    source = link.resolve()
    link.unlink()
    with source.open("rb") as whole:
        link.write_bytes(whole.read(_KEPT_BYTES))


def _write(link: Path, text: str) -> None:
    link.unlink(missing_ok=True)
    link.write_text(text)
