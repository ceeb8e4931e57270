"""BundledTarget: the engine of this project as a target, and the only place where tools know the engine."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import engine
from engine.digest import digest_of_file, model_digest
from engine.errors import StartRefused
from engine.knobs import EngineKnobs, KnobRow, knob_table
from engine.limits import context_limit
from engine.memory import plan_memory
from engine.model_config import ModelConfig
from tools.profile.checkpoint import Checkpoint
from tools.profile.physics import ModelFacts
from tools.targets.control import ControlClient, ControlError
from tools.targets.hosted import Command, Hosted, started_at, words_of
from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value
from tools.targets.process import LOOPBACK, allowed_environment
from tools.targets.scrape import scraped
from tools.targets.target import Counters, Endpoint, Identity, LaunchFailed, MemoryNeed
from tools.targets.vocabulary import counted

__all__ = ["BundledTarget", "digest_of_model"]

_LARGEST_BLOCK = 64
"Tokens; a KV cache is counted in whole blocks."
_VALUE_BYTES: Mapping[Value, float] = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0}
_CHECKPOINT_BYTES: Mapping[str, float] = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
"""`auto` keeps the checkpoint's own format, or widens it where the device can't compute it."""
_INTEGER_GAIN = 2.0
"""Processors multiply numbers of 8 bits twice as fast as those of 16."""


class BundledTarget:
    """Serves the Hugging Face directory `model_dir` with `python -m engine serve`, one process per launch."""

    name = "bundled"
    can_apply = True

    def __init__(self, model_dir: Path, device: str = "cpu") -> None:
        self.model_dir = model_dir.absolute()  # a link keeps its name: it is the name that is served
        self.device = device
        self._hosted = Hosted()

    @cached_property
    def knobs(self) -> KnobSpace:
        """The engine's knob table; `device` defaults to this target's."""
        space = {row.name: _knob(row) for row in knob_table()}
        space["device"] = dataclasses.replace(space["device"], default=space["device"].check(self.device))
        return KnobSpace(space)

    def check(self) -> None:
        """It stands where this code stands."""

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """`space` with no more threads than cores, and a KV cache that holds a sequence and fits beside the weights."""
        knobs = EngineKnobs.from_values(around.values)
        need = self.memory(around)
        room_bytes = memory_bytes - need.total_bytes + need.kv_cache_bytes
        fits = int(room_bytes / (need.kv_cache_bytes / knobs.kv_cache_tokens))
        longest = context_limit(knobs, ModelConfig.load(self.model_dir))
        whole_blocks = -(-longest // _LARGEST_BLOCK) * _LARGEST_BLOCK
        bounds = {"num_threads": (0, cores), "kv_cache_tokens": (whole_blocks, fits)}
        return KnobSpace({knob.name: _bounded(knob, bounds.get(knob.name)) for knob in space})

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """Start the engine with `config` and wait until it answers; a port lost to another process is tried again.

        Raises:
            LaunchFailed: it crashed, was refused or wasn't ready within `timeout_s`; nothing is left running.
        """
        return self._hosted.start(
            lambda port: Command(self._command(port, config), _environment()),
            served_as=self.model_dir.name,
            ready_path="/health",
            log=log,
            timeout_s=timeout_s,
            check=_require_pid,
        )

    def identify(self, endpoint: Endpoint) -> Identity:
        """Who answers at `endpoint`: by /server_info, by /metrics, and by the OS's own record of the process.

        Raises:
            LaunchFailed: the server has died, doesn't answer, or the three sources contradict one another.
        """
        with self._hosted.explained(endpoint):
            client = ControlClient(endpoint.base_url)
            info = client.json("/server_info")
            labels = next((s.labels for s in scraped(client) if s.name == "engine_config_info"), None)
        if labels is None:
            raise ControlError(f"{endpoint.base_url}/metrics: expected engine_config_info, found no such metric")
        pid = int(info["pid"])
        if labels.get("model_digest") != info["model_digest"]:
            raise ControlError(f"{endpoint.base_url}: /server_info and /metrics name different models")
        if endpoint.pid and pid != endpoint.pid:
            raise ControlError(f"{endpoint.base_url}: expected process {endpoint.pid} to answer, found {pid}")
        if endpoint.pid:
            self._require_command(endpoint)
        return Identity(
            model=str(info["model"]),
            model_digest=str(info["model_digest"]),
            config=dict(info["config"]),
            config_digest=labels["config_hash"],
            started_at=float(info["started_at"]),
            process_started_at=started_at(pid) if endpoint.pid else 0.0,
            pid=pid,
            engine=str(info["engine"]),
        )

    def counters(self, endpoint: Endpoint) -> Counters:
        """Counters since the server's start.

        Raises:
            LaunchFailed: the server has died or doesn't answer.
        """
        with self._hosted.explained(endpoint):
            return counted("bundled", scraped(ControlClient(endpoint.base_url)))

    def reset_cache(self, endpoint: Endpoint) -> None:
        """Empty the prefix cache.

        Raises:
            LaunchFailed: the server has died, doesn't answer, or requests are running.
        """
        with self._hosted.explained(endpoint):
            ControlClient(endpoint.base_url).post("/reset_prefix_cache")

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        """Why the engine has died, from its exit status and the end of its log; None while it lives."""
        return self._hosted.postmortem(endpoint)

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        """Drain for at most `grace_s`, end the process group, and see that the port is closed.

        Raises:
            ControlError: something still listens on the port, so it isn't the server that we ended.
        """
        self._hosted.stop(endpoint, grace_s)

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        """`config` with as many whole blocks of KV cache as fit into `kv_bytes`."""
        tokens = kv_bytes * int(config.values["kv_cache_tokens"]) // self.memory(config).kv_cache_bytes
        block = int(config.values["block_size"])
        return self.knobs.resolve({**config.values, "kv_cache_tokens": tokens // block * block})

    def restore(self) -> tuple[str, ...]:
        """End every server that is still there, at once; which, a clause each."""
        return self._hosted.restore()

    def model_digest(self) -> str:
        """The digest that a server of this model has to state."""
        return digest_of_model(self.model_dir)

    def memory(self, config: Config) -> MemoryNeed:
        """What the engine's closed formula says of `config`; no process is started and torch isn't imported.

        Raises:
            KnobError: values that don't go together, or a model that the engine can't run.
        """
        try:
            model, knobs = ModelConfig.load(self.model_dir), EngineKnobs.from_values(config.values)
            context_limit(knobs, model)
            plan = plan_memory(model, knobs)
        except StartRefused as refusal:
            raise KnobError(refusal.sentence) from None
        return MemoryNeed(
            weights_bytes=plan.weights_bytes,
            kv_cache_bytes=plan.kv_cache_bytes,
            activation_bytes=plan.activation_bytes,
            overhead_bytes=plan.overhead_bytes,
            parts=dict(plan.parts),
        )

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts:
        """What a token costs with `config`; of the knobs in `free`, with whichever value makes it cheapest.

        Raises:
            KnobError: a model that the engine can't run.
            UserError: a checkpoint that can't be read.
        """
        try:
            model = ModelConfig.load(self.model_dir)
        except StartRefused as refusal:
            raise KnobError(refusal.sentence) from None
        stored = Checkpoint.read(self.model_dir)

        def least(name: str, bytes_of: Mapping[Value, float]) -> float:
            values = self.knobs[name].choices if name in free else (config.values[name],)
            return min(bytes_of[value] for value in values)

        value = least("dtype", {**_VALUE_BYTES, "auto": _CHECKPOINT_BYTES[model.dtype]})
        weight = least("quantization", {"none": value, "int8": 1.0, "int4": 0.5})
        return ModelFacts(
            # The output head is quantised to eight bits at the least.
            step_bytes=int(stored.token_parameters * weight + stored.head_parameters * min(value, max(weight, 1.0))),
            token_parameters=stored.token_parameters,
            head_parameters=stored.head_parameters,
            kv_bytes=int(
                2 * model.num_kv_heads * model.head_dim * least("kv_cache_dtype", {"auto": value, "fp8": 1.0})
            ),
            kv_layers=tuple(Counter(model.windows).items()),
            arithmetic_gain=1.0 if weight == value else _INTEGER_GAIN,
        )

    def _command(self, port: int, config: Config) -> list[str]:
        command = [sys.executable, "-P", "-m", "engine", "serve", str(self.model_dir)]
        command += ["--host", LOOPBACK, "--port", str(port), "--served-model-name", self.model_dir.name]
        for name, value in config.values.items():
            command += _flag(self.knobs[name], value)
        return command

    def _require_command(self, endpoint: Endpoint) -> None:
        """The OS must say that the process runs the command that we gave, on the port that we asked."""
        words = words_of(endpoint.pid)
        port = str(urlsplit(endpoint.base_url).port)
        if not {"engine", str(self.model_dir), port} <= set(words):
            raise ControlError(f"{endpoint.base_url}: process {endpoint.pid} runs another command: {' '.join(words)}")


def digest_of_model(path: Path) -> str:
    """What decides what a model says, content-addressed alike for whichever engine serves it: a folder or one file."""
    return model_digest(path) if path.is_dir() else digest_of_file(path)


def _require_pid(client: ControlClient, pid: int) -> None:
    answering = client.json("/server_info").get("pid")
    if answering != pid:
        raise LaunchFailed("port_taken", f"process {answering} answers at {client.base_url}, {pid} was started there")


def _knob(row: KnobRow) -> Knob:
    shared = {field.name for field in dataclasses.fields(Knob)} & {field.name for field in dataclasses.fields(KnobRow)}
    return Knob(**{name: getattr(row, name) for name in shared}, auto=row.placeholder)


def _bounded(knob: Knob, bounds: tuple[int, int] | None) -> Knob:
    """`knob` within `bounds` where these are narrower; as it is where nothing would be left."""
    if bounds is None or knob.low is None or knob.high is None:
        return knob
    low, high = max(knob.low, bounds[0]), min(knob.high, bounds[1])
    return dataclasses.replace(knob, low=low, high=high) if low < high else knob


def _flag(knob: Knob, value: Value) -> list[str]:
    if knob.kind == "bool":
        return [knob.flag if value else "--no-" + knob.flag.removeprefix("--")]
    return [knob.flag, str(value)]


def _environment() -> dict[str, str]:
    """The engine is imported from where this process has it, whatever the working directory, and asks no hub."""
    place = str(Path(engine.__path__[0]).resolve().parent)
    return {**allowed_environment(), "PYTHONPATH": place, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
