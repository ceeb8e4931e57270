"""LlamaCpp: how llama.cpp's `llama-server` is started, asked and read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from prometheus_client.samples import Sample

from tools.profile.model_shape import ModelShape, read_shape
from tools.profile.physics import ModelFacts
from tools.targets.control import ControlClient, ControlError
from tools.targets.drivers.command_line import CommandLine
from tools.targets.drivers.driver import Start
from tools.targets.knobs import Config, KnobError, KnobSpace, Value
from tools.targets.spec import ServerSpec
from tools.targets.target import Counters, MemoryNeed
from tools.targets.vocabulary import counted

__all__ = ["LlamaCpp"]

_UNWRITABLE = "/proc"
"""Slots can be emptied over HTTP only where they can be saved to a folder as well: to this one nobody can save."""

_BYTES: Mapping[Value, float] = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
"Of a number in the KV cache; ggml stores 32 of them in a block."

_OPEN: Mapping[str, Value] = {"threads": 0, "threads_batch": 0}
"Values that stand for one of its own choice: all cores."
_SLOTS = 4
"Where `--parallel` is left open; they then share one KV cache."
_STEP = 256
"A KV cache is counted in so many tokens."
_LEAST_STEP = 32
"Tokens of a step below which nobody need look."
_IDLE_BYTES = 20 << 20
"What the program holds beside all that is named here: 27 MB resident were measured, of SmolLM2-135M."

_LOGGED: Mapping[str, re.Pattern[str]] = {
    "threads": re.compile(r"threadpool init, n_threads = (\d+)"),
    "kv_unified": re.compile(r"n_ctx_slot = \d+, kv_unified = '(true|false)'"),
    "batch": re.compile(r"llama_context: n_batch +=\s*(\d+)"),
    "ubatch": re.compile(r"llama_context: n_ubatch +=\s*(\d+)"),
    "cache_type_k": re.compile(r"llama_kv_cache.*: size = .* K \((\w+)\):"),
    "cache_type_v": re.compile(r"llama_kv_cache.*: size = .* V \((\w+)\):"),
    "flash_attn": re.compile(r"Flash Attention (enabled|disabled)"),
}
"""What it prints when it starts: the first two at its usual verbosity, the rest from 4 on and in versions before that
had levels (2026). Batches are those in effect: no larger than the context."""


class LlamaCpp:
    """Serves the GGUF file `model`."""

    name = "llamacpp"
    ready_path = "/health"
    metrics_path = "/metrics"

    def __init__(self, model: Path, spec: ServerSpec, names: Collection[str]) -> None:
        """
        Args:
            names: the knobs that the deployment's config names.

        Raises:
            KnobError: a name that it has no knob for.
        """
        self.model = model
        self._line = CommandLine("llamacpp", spec, frozenset(names))
        space = self._line.table.space
        self.knobs = KnobSpace({knob.name: replace(knob, auto=_OPEN.get(knob.name)) for knob in space})
        self.served_as = spec.served_name or model.stem

    def start(self, config: Config, host: str, port: int) -> Start:
        words = [*(self._line.spec.command or ("llama-server",)), "--model", str(self.model), "--alias", self.served_as]
        words += ["--host", host, "--port", str(port), "--metrics", "--slots", "--jinja"]
        return self._line.start([*words, "--slot-save-path", _UNWRITABLE], {}, config)

    def asked(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        return self._line.read(words, environment)

    def effective(self, client: ControlClient, log: Path | None) -> dict[str, Value]:
        """Slots and context as /props tells them, and what the log said at the start.

        A context of several slots isn't told: each slot's part is rounded up, and no longer than the model allows. Nor
        is one slot's that is as long as that: the cache may be larger.
        """
        props = client.json("/props")
        slots = int(props["total_slots"])
        told = _logged(log.read_text(errors="replace")) if log is not None and log.is_file() else {}
        context = props.get("default_generation_settings", {}).get("n_ctx")
        longest = self._shape.context_tokens if self._shape else None
        if isinstance(context, int) and slots == 1 and (longest is None or context < longest):
            told["ctx_size"] = context
        return {**told, "parallel": slots}

    def version(self, client: ControlClient) -> str:
        return str(client.json("/props").get("build_info", ""))

    def serves(self, client: ControlClient) -> Path:
        props = client.json("/props")
        path, alias = props.get("model_path"), props.get("model_alias", self.served_as)
        if not isinstance(path, str):
            raise ControlError(f"{client.base_url}/props: expected model_path, found none")
        if alias != self.served_as:
            raise ControlError(f"{client.base_url}/props: expected the model {self.served_as}, found {alias}")
        return Path(path)

    def started_at(self, samples: Sequence[Sample]) -> float | None:
        return None

    def counters(self, samples: Sequence[Sample]) -> Counters:
        return counted("llamacpp", samples)

    def reset_cache(self, client: ControlClient) -> None:
        """Empty every slot.

        Copies of earlier prompts in main memory (`cache_ram`) stay, for nothing but a restart takes them out. A prompt
        that shares no beginning with those isn't served from them: two seeds of a workload never share one, nor does
        its warm-up. What comes from either counts as a hit in its counters and its answers.
        """
        for slot in range(int(client.json("/props")["total_slots"])):
            client.post(f"/slots/{slot}?action=erase")

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """No more threads than cores, a context that fits beside the weights, and no step larger than the cache."""
        bounds: dict[str, tuple[float, float]] = dict.fromkeys(("threads", "threads_batch"), (0, cores))
        need, token = self.memory(around), self._token_bytes(self._line.set_by(around))
        if self._shape is not None:
            cells = self._cells(self._line.set_by(around), self._shape)
            bounds |= dict.fromkeys(("batch", "ubatch"), (_LEAST_STEP, max(cells, 2 * _LEAST_STEP)))
        if token:
            bounds["ctx_size"] = (_STEP, (memory_bytes - need.total_bytes + need.kv_cache_bytes) // token)
        return self._line.narrowed(space, bounds)

    def memory(self, config: Config) -> MemoryNeed:
        """Weights, KV cache, the widest layer of a step and the program itself; a lower bound.

        Checked against what is resident: see docs/targets.md. The scores of attention without `flash_attn`, and copies
        of prompts in main memory, come on top.
        """
        shape, values = self._shape, self._line.set_by(config)
        if shape is None:
            return MemoryNeed(self.model.stat().st_size, 0, 0, _IDLE_BYTES)
        cells = self._cells(values, shape)
        step = min(int(values.get("ubatch", 512)), int(values.get("batch", 2048)), cells)
        return MemoryNeed(
            weights_bytes=shape.weights_bytes,
            kv_cache_bytes=self._kv_bytes(values, shape, cells),
            activation_bytes=4 * step * 2 * (shape.hidden + shape.feed_forward),
            overhead_bytes=_IDLE_BYTES,
        )

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        shape, stored = self._shape, self._shape.stored if self._shape else None
        values = self._line.set_by(config)
        guesses = values.get("spec_type", "none") != "none" or "spec_type" in free or self._line.says("draft", "spec-")
        if shape is None or stored is None or guesses:
            return None

        def least(name: str) -> float:
            choices = self.knobs[name].choices if name in free else (values.get(name, "f16"),)
            return min(_BYTES[choice] for choice in choices)

        return ModelFacts(
            step_bytes=stored.step_bytes,
            token_parameters=stored.token_parameters,
            head_parameters=stored.head_parameters,
            kv_bytes=int(shape.token_bytes(least("cache_type_k"), least("cache_type_v"))),
            kv_layers=shape.windows,
            arithmetic_gain=2.0 if shape.is_quantized else 1.0,
        )

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        if "ctx_size" not in self.knobs.knobs:
            raise KnobError("llama.cpp's KV cache is sized by the knob ctx_size; name it under config:")
        values = self._line.set_by(config)
        token = self._token_bytes(values)
        if not token:
            raise KnobError(f"{self.model}: its header doesn't tell how large a token's keys and values are")
        step = _STEP if self._is_unified(values) else _STEP * self._slots(values)
        tokens = int(kv_bytes / token) // step * step
        if tokens == 0:
            raise KnobError(f"ctx_size: {step} tokens at least need {step * token:,.0f} bytes, found {kv_bytes:,}")
        return config.patched({"ctx_size": self.knobs["ctx_size"].check(tokens)})

    @cached_property
    def _shape(self) -> ModelShape | None:
        return read_shape(self.model)

    def _slots(self, values: Mapping[str, Value]) -> int:
        return int(values.get("parallel", _SLOTS))

    def _is_unified(self, values: Mapping[str, Value]) -> bool:
        """Whether the slots share one KV cache; where nothing is said they do if their number is left open."""
        return bool(values.get("kv_unified", "parallel" not in values))

    def _cells(self, values: Mapping[str, Value], shape: ModelShape) -> int:
        """Tokens that the KV cache holds; each slot's part is rounded up."""
        asked, slots = int(values.get("ctx_size", shape.context_tokens)), self._slots(values)
        if self._is_unified(values):
            return -(-asked // _STEP) * _STEP
        return -(-(asked // slots) // _STEP) * _STEP * slots

    def _kv_bytes(self, values: Mapping[str, Value], shape: ModelShape, cells: int) -> int:
        """Layers with a window hold that much and no more, unless `swa_full`."""
        per_layer = shape.token_bytes(*self._types(values))
        slots = 1 if self._is_unified(values) else self._slots(values)
        is_full = bool(values.get("swa_full", False))
        held = sum(n * (cells if is_full or not most else min(cells, most * slots)) for most, n in shape.windows)
        return int(per_layer * held)

    def _token_bytes(self, values: Mapping[str, Value]) -> float:
        """Of a token in all layers; 0 where the file doesn't tell."""
        shape = self._shape
        return shape.token_bytes(*self._types(values)) * shape.layers if shape else 0.0

    def _types(self, values: Mapping[str, Value]) -> tuple[float, float]:
        return _BYTES[values.get("cache_type_k", "f16")], _BYTES[values.get("cache_type_v", "f16")]


def _logged(text: str) -> dict[str, Value]:
    """The last start's values; a log that began anew since then has none."""
    found = {name: matches[-1] for name, pattern in _LOGGED.items() if (matches := pattern.findall(text))}
    return {name: _value(word) for name, word in found.items()}


def _value(word: str) -> Value:
    if word in ("true", "enabled", "false", "disabled"):
        return word in ("true", "enabled")
    return int(word) if word.isdecimal() else word
