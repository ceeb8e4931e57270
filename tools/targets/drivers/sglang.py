"""SgLang: how SGLang's server is started, asked and read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from prometheus_client.samples import Sample

from tools.profile.physics import ModelFacts
from tools.targets.control import ControlClient, ControlError
from tools.targets.drivers.command_line import CommandLine
from tools.targets.drivers.driver import Start
from tools.targets.drivers.served_folder import ServedFolder
from tools.targets.knobs import Config, KnobError, KnobSpace, Value
from tools.targets.spec import ServerSpec
from tools.targets.target import Counters, MemoryNeed
from tools.targets.vocabulary import counted

__all__ = ["SgLang"]

_INFO = ("/server_info", "/get_server_info")
"The newer name first; the older one is on its way out."
_NONE: Mapping[str, Value] = {"quantization": "none", "speculative_algorithm": "none"}
"""What null stands for, where that is a value of the knob."""


class SgLang:
    """Serves the Hugging Face folder `model`."""

    name = "sglang"
    ready_path = "/health"
    metrics_path = "/metrics"

    def __init__(
        self, model: Path, spec: ServerSpec, names: Collection[str], device: Literal["cpu", "cuda"] = "cuda"
    ) -> None:
        """
        Args:
            names: the knobs that the deployment's config names.
            device: what it computes on, and whose memory the formulas are about.

        Raises:
            KnobError: a name that it has no knob for.
        """
        self.model = model
        self._device = device
        self._line = CommandLine("sglang", spec, frozenset(names))
        self._served = ServedFolder(model)
        self.knobs: KnobSpace = self._line.table.space
        self.served_as = spec.served_name or model.name

    def start(self, config: Config, host: str, port: int) -> Start:
        """Its metrics are off unless asked for, and so is what its answers tell of cached tokens."""
        words = [
            *(self._line.spec.command or ("python", "-m", "sglang.launch_server")),
            "--model-path",
            str(self.model),
        ]
        words += ["--served-model-name", self.served_as, "--host", host, "--port", str(port)]
        words += ["--device", self._device, "--enable-metrics", "--enable-cache-report"]
        return self._line.start(words, {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}, config)

    def asked(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        return self._line.read(words, environment)

    def effective(self, client: ControlClient, log: Path | None) -> dict[str, Value]:
        """Its arguments with what it chose where none was given, and what its scheduler made of them."""
        info = _info(client)
        told = {name: info[called] for name, called in self._line.reported_as.items() if called in info}
        state: Mapping[str, Any] = next(iter(info.get("internal_states") or []), {})
        if "effective_max_running_requests_per_dp" in state and "max_running_requests" in told:
            told["max_running_requests"] = state["effective_max_running_requests_per_dp"] * (info.get("dp_size") or 1)
        if "max_total_num_tokens" in info and "max_total_tokens" in told:
            told["max_total_tokens"] = info["max_total_num_tokens"]
        plain = {name: _NONE.get(name) if value is None else value for name, value in told.items()}
        return {name: value for name, value in plain.items() if isinstance(value, bool | int | float | str)}

    def version(self, client: ControlClient) -> str:
        return str(_info(client).get("version", ""))

    def serves(self, client: ControlClient) -> Path:
        info = _info(client)
        path, name = info.get("model_path"), info.get("served_model_name") or info.get("model_path")
        if not isinstance(path, str):
            raise ControlError(f"{client.base_url}{_INFO[0]}: expected model_path, found none")
        if name != self.served_as:
            raise ControlError(f"{client.base_url}{_INFO[0]}: expected the model {self.served_as}, found {name}")
        return Path(path)

    def started_at(self, samples: Sequence[Sample]) -> float | None:
        """Its processes share one scrape, which leaves out when each began."""
        return None

    def counters(self, samples: Sequence[Sample]) -> Counters:
        return counted("sglang", samples)

    def reset_cache(self, client: ControlClient) -> None:
        """It refuses while requests run."""
        client.post("/flush_cache")

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """A KV cache that fits beside the rest."""
        need, token_bytes = self.memory(around), self._token_bytes(around)
        room_bytes = memory_bytes - need.total_bytes + need.kv_cache_bytes
        bounds = {"max_total_tokens": (1.0, float(room_bytes // token_bytes))} if token_bytes else {}
        return self._line.narrowed(space, bounds)

    def memory(self, config: Config) -> MemoryNeed:
        """A lower bound: weights, the KV cache where its size is said, else one sequence of `context_length`, and the
        widest layer of a step. `mem_fraction_static` is a share of what there is, so that it fits by itself."""
        values, served = self._line.set_by(config), self._served
        dtype = values.get("dtype", "auto")
        made_for = served.shape.context_tokens if served.shape else 0
        tokens = int(values.get("max_total_tokens", values.get("context_length", made_for)))
        return MemoryNeed(
            weights_bytes=served.weights_bytes(dtype, values.get("quantization", "none")),
            kv_cache_bytes=tokens * self._token_bytes(config),
            activation_bytes=served.step_bytes(dtype, max(int(values.get("chunked_prefill_size", 1)), 1), 1),
            overhead_bytes=0,
        )

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        """Nothing is known where tokens are guessed: how many share a step's reading isn't one knob's to say."""
        values = self._line.set_by(config)
        guesses = values.get("speculative_algorithm", "none") != "none" or "speculative_algorithm" in free
        if guesses or self._line.says("--speculative-"):
            return None

        def open_to(name: str, unsaid: Value) -> tuple[Value, ...]:
            return self.knobs[name].choices if name in free else (values.get(name, unsaid),)

        return self._served.facts(
            open_to("dtype", "auto"), open_to("quantization", "none"), open_to("kv_cache_dtype", "auto"), guessed=0
        )

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        if "max_total_tokens" not in self.knobs.knobs:
            raise KnobError("SGLang's KV cache is sized by the knob max_total_tokens; name it under config:")
        token_bytes = self._token_bytes(config)
        if not token_bytes:
            raise KnobError(f"{self.model}: config.json doesn't tell how large a token's keys and values are")
        return config.patched({"max_total_tokens": self.knobs["max_total_tokens"].check(kv_bytes // token_bytes)})

    def _token_bytes(self, config: Config) -> int:
        values = self._line.set_by(config)
        return self._served.token_bytes(values.get("dtype", "auto"), values.get("kv_cache_dtype", "auto"))


def _info(client: ControlClient) -> dict[str, Any]:
    """What the server says of itself.

    Raises:
        ControlError: it has neither endpoint, or doesn't answer.
    """
    status, _ = client.request("GET", _INFO[0])
    return client.json(_INFO[1] if status == 404 else _INFO[0])
