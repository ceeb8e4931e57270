"""Vllm: how vLLM's OpenAI server is started, asked and read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from prometheus_client.samples import Sample

from tools.models import cache_dir
from tools.profile.physics import ModelFacts
from tools.targets.control import ControlClient
from tools.targets.drivers.command_line import CommandLine
from tools.targets.drivers.driver import Start
from tools.targets.drivers.served_folder import ServedFolder
from tools.targets.drivers.vllm_word import empty_cache, own_config, served_root
from tools.targets.knobs import Config, KnobError, KnobSpace, Value
from tools.targets.scrape import scraped
from tools.targets.spec import ServerSpec
from tools.targets.target import Counters, MemoryNeed
from tools.targets.vocabulary import counted

__all__ = ["Vllm"]

_GIB = 1 << 30
_PROCESSES_BYTES = 3 << 29
"""What API server, engine core and one worker hold on a CPU beside weights and KV cache: Python, torch and kernels.
Of vLLM 0.32 1.9 GB were measured (proportional set size), without compilation."""

_FIRST_INFO_S = 60.0
"""Asked for its config for the first time, a server looks at its machine too (`pip list`, `lscpu`, `nvidia-smi`), which
takes seconds; it keeps what it found."""


class Vllm:
    """Serves the Hugging Face folder `model`."""

    name = "vllm"
    ready_path = "/health"
    metrics_path = "/metrics"

    def __init__(
        self, model: Path, spec: ServerSpec, names: Collection[str], device: Literal["cpu", "cuda"] = "cpu"
    ) -> None:
        """
        Args:
            names: the knobs that the deployment's config names.
            device: whose memory the formulas are about.

        Raises:
            KnobError: a name that it has no knob for.
        """
        self.model = model
        self._device = device
        self._line = CommandLine("vllm", spec, frozenset(names))
        self._served = ServedFolder(model)
        self.knobs: KnobSpace = self._line.table.space
        self.served_as = spec.served_name or model.name

    def start(self, config: Config, host: str, port: int) -> Start:
        """No plugins, no usage reports and no hub; development mode, for /server_info and /reset_prefix_cache, on
        loopback alone; what was compiled is kept for the next launch."""
        words = [
            *_program(self._line.spec.command or ("vllm",)),
            str(self.model),
            "--served-model-name",
            self.served_as,
        ]
        words += ["--host", host, "--port", str(port), "--enable-prompt-tokens-details"]
        usual = {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_PLUGINS": "",
            "VLLM_CACHE_ROOT": os.environ.get("VLLM_CACHE_ROOT", str(cache_dir().parent / "vllm")),
        }
        start = self._line.start(words, usual, config)
        return Start(start.words, {**start.environment, "VLLM_SERVER_DEV_MODE": "1"})

    def asked(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        return self._line.read(words, environment)

    def effective(self, client: ControlClient, log: Path | None) -> dict[str, Value]:
        patient = client.waiting(_FIRST_INFO_S)
        return own_config(patient, scraped(client), self.knobs.knobs)

    def version(self, client: ControlClient) -> str:
        return str(client.json("/version").get("version", ""))

    def serves(self, client: ControlClient) -> Path:
        return served_root(client, self.served_as)

    def started_at(self, samples: Sequence[Sample]) -> float | None:
        """Absent where several API servers share one scrape."""
        return next((sample.value for sample in samples if sample.name == "process_start_time_seconds"), None)

    def counters(self, samples: Sequence[Sample]) -> Counters:
        return counted("vllm", samples)

    def reset_cache(self, client: ControlClient) -> None:
        empty_cache(client)

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """A KV cache that fits beside the rest."""
        need = self.memory(around)
        room_bytes = memory_bytes - need.total_bytes + need.kv_cache_bytes
        bounds = {"cpu_kvcache_space": (1.0, room_bytes // _GIB), "kv_cache_memory_bytes": (0.0, room_bytes)}
        return self._line.narrowed(space, bounds)

    def memory(self, config: Config) -> MemoryNeed:
        """A lower bound: weights, the KV cache where its size is said, else one sequence of `max_model_len`, the widest
        layer of a step, and on a CPU the processes themselves. Compiled graphs come on top."""
        values, served = self._line.set_by(config), self._served
        dtype = values.get("dtype", "auto")
        sequences, tokens = int(values.get("max_num_seqs", 1)), int(values.get("max_num_batched_tokens", 1))
        return MemoryNeed(
            weights_bytes=served.weights_bytes(dtype, values.get("quantization", "none")),
            kv_cache_bytes=self._kv_bytes(values),
            activation_bytes=served.step_bytes(dtype, tokens, sequences),
            overhead_bytes=_PROCESSES_BYTES if self._device == "cpu" else 0,
        )

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        values = self._line.set_by(config)
        if self._line.says("--spec-", "--speculative-model"):  # guesses by words that no knob stands for
            return None

        def open_to(name: str, unsaid: Value) -> tuple[Value, ...]:
            return self.knobs[name].choices if name in free else (values.get(name, unsaid),)

        guessed = int(values.get("num_speculative_tokens", 0))
        if "num_speculative_tokens" in free:
            guessed = int(self.knobs["num_speculative_tokens"].high or guessed)
        return self._served.facts(
            open_to("dtype", "auto"), open_to("quantization", "none"), open_to("kv_cache_dtype", "auto"), guessed
        )

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        """By bytes where `kv_cache_memory_bytes` is named, else by whole GiB with `cpu_kvcache_space`; the engine
        rounds down to whole blocks."""
        if "kv_cache_memory_bytes" in self.knobs.knobs:
            name, size = "kv_cache_memory_bytes", kv_bytes
        elif "cpu_kvcache_space" in self.knobs.knobs:
            name, size = "cpu_kvcache_space", kv_bytes // _GIB
        else:
            raise KnobError(
                "vLLM's KV cache is sized by the knobs kv_cache_memory_bytes and, on a CPU, cpu_kvcache_space; "
                "name one of them under config:"
            )
        return config.patched({name: self.knobs[name].check(size)})

    def _kv_bytes(self, values: Mapping[str, Value]) -> int:
        if "kv_cache_memory_bytes" in values:
            return int(values["kv_cache_memory_bytes"])
        if self._device == "cpu" and "cpu_kvcache_space" in values:
            return int(values["cpu_kvcache_space"]) * _GIB
        made_for = self._served.shape.context_tokens if self._served.shape else 0
        token_bytes = self._served.token_bytes(values.get("dtype", "auto"), values.get("kv_cache_dtype", "auto"))
        return token_bytes * int(values.get("max_model_len", made_for))


def _program(command: tuple[str, ...]) -> tuple[str, ...]:
    """What comes before the model: `vllm serve`, or `--model` of the module that is no command line of its own."""
    if command[-1].startswith("vllm."):
        return (*command, "--model")
    return command if command[-1] == "serve" else (*command, "serve")
