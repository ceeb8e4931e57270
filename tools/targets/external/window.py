"""Window: how an external server is looked at; the few questions that tell who it is, and its counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tools.targets.control import ControlClient, ControlError
from tools.targets.external.address import origin_of
from tools.targets.external.change import Changed, explained
from tools.targets.external.own_word import empty_cache, own_word
from tools.targets.external.sight import Sight
from tools.targets.target import Counters
from tools.targets.trust import Trust
from tools.targets.vocabulary import counted, engine_of_samples

__all__ = ["Window"]

_ASK_TIMEOUT_S = 10.0
_OWNERS: Mapping[str, str] = {
    "autotune-engine": "bundled",
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
}
_LASTING = ("id", "root", "parent", "max_model_len", "meta", "owned_by")
"""Of an entry in the list of models. Others (`created`, `permission`) are made anew for each answer."""


class Window:
    """One server, seen from outside. Its own errors are told as changes; see `explained`."""

    def __init__(
        self,
        url: str,
        model: str | None,
        *,
        api_key: str | None,
        trust: Trust,
        engine: str | None,
        metrics_url: str | None,
        knobs: Collection[str],
    ) -> None:
        """
        Args:
            model: the served name; None: the only one there is.
            engine: None where it is to be found out.
            knobs: names of the settings to look for.
        """
        self.url = url
        self._model = model
        self._engine = engine
        self._knobs = knobs
        self._client = ControlClient(url, timeout_s=_ASK_TIMEOUT_S, api_key=api_key, trust=trust)
        self._metrics, self._metrics_path = self._client, "/metrics"
        if metrics_url is not None:
            parts = urlsplit(metrics_url)
            key = api_key if origin_of(metrics_url) == origin_of(url) else None
            self._metrics = ControlClient(f"{parts.scheme}://{parts.netloc}", api_key=key, trust=trust)
            self._metrics_path = parts.path
        self._declared = metrics_url is not None
        self._answers = True
        "Whether it answers a plain question; where it once didn't, it isn't asked again."

    @property
    def model(self) -> str:
        """The name to send.

        Raises:
            LaunchFailed: none was given, and it doesn't serve exactly one.
        """
        if self._model is None:
            try:
                self._model = self._only_model(self._models())
            except ControlError as error:
                raise explained(error, self.url) from error
        return self._model

    def look(self) -> Sight:
        """What it tells of itself now.

        Raises:
            LaunchFailed: it doesn't answer, refuses us, or doesn't serve the model.
        """
        model = self.model
        try:
            return self._look(model)
        except ControlError as error:
            raise explained(error, self.url) from error

    def counters(self) -> Counters:
        """Its counters; none where it exports none.

        Raises:
            LaunchFailed: it doesn't answer.
        """
        try:
            samples = self._samples()
        except ControlError as error:
            raise explained(error, self.url) from error
        engine = self._engine or engine_of_samples(samples)
        return counted(engine, samples) if engine is not None else {}

    def reset_cache(self) -> None:
        """Empty its prefix cache.

        Raises:
            LaunchFailed: it can't be emptied, or not by us.
        """
        try:
            empty_cache(self._engine, self._client, self.model)
        except ControlError as error:
            raise explained(error, self.url) from error

    def _look(self, model: str) -> Sight:
        models = self._models()
        entry = next((entry for entry in models or () if entry.get("id") == model), None)
        if models and entry is None:
            raise Changed("model", self.url, f"expected {model!r}, it serves {_names(models)}")
        listed = {name: entry[name] for name in _LASTING if entry.get(name) is not None} if entry else {}
        samples = self._samples()
        if self._engine is None:
            self._engine = _OWNERS.get(str(listed.get("owned_by"))) or engine_of_samples(samples)
        word = own_word(self._engine, self._client, model, self._knobs)
        said = self._ask(model)
        usage = said.get("usage")
        prompt_tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        info = next((s.labels for s in samples if s.name == "engine_config_info"), {})
        return Sight(
            engine=self._engine,
            version=word.version,
            model=model,
            listed=listed,
            stated_digest=word.model_digest,
            config=word.config,
            config_digest=info.get("config_hash"),
            started_at=word.started_at if word.started_at is not None else _started_at(samples),
            pid=word.pid,
            answers_as=_text(said.get("model")),
            fingerprint=_text(said.get("system_fingerprint")),
            prompt_tokens=prompt_tokens if isinstance(prompt_tokens, int) else None,
        )

    def _models(self) -> list[Mapping[str, Any]] | None:
        """The list of models; None where there is no such list."""
        try:
            data = self._client.json("/v1/models").get("data")
        except ControlError as error:
            if error.answered is None or explained(error, self.url) is not error:
                raise
            return None
        return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else None

    def _only_model(self, models: list[Mapping[str, Any]] | None) -> str:
        if not models:
            sentence = (
                f"{self.url}/v1/models: expected a list of models, found none; say which one to ask for (--model)"
            )
            raise ControlError(sentence)
        if len(models) != 1:
            raise ControlError(f"{self.url} serves {len(models)} models ({_names(models)}); choose one with --model")
        return str(models[0].get("id"))

    def _samples(self) -> Sequence[Sample]:
        """What stands at its metrics; nothing where it has none that are open to us, unless they were declared."""
        try:
            text = self._metrics.text(self._metrics_path)
        except ControlError as error:
            if self._declared or error.answered is None:
                raise
            return ()  # not there, closed to us, or a gateway's own business
        try:
            return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        except (ValueError, KeyError) as error:
            if self._declared:
                where = f"{self._metrics.base_url}{self._metrics_path}"
                raise ControlError(f"{where}: expected Prometheus text, found {error}") from error
            return ()  # a page of some other kind

    def _ask(self, model: str) -> Mapping[str, Any]:
        """Its answer of one token to one and the same question; nothing where it has none."""
        if not self._answers:
            return {}
        question = {"model": model, "messages": [{"role": "user", "content": "Say one word."}]}
        try:
            return self._client.ask("/v1/chat/completions", {**question, "max_tokens": 1, "temperature": 0})
        except ControlError as error:
            hangs = isinstance(error.__cause__, TimeoutError)
            if not hangs and explained(error, self.url) is not error:
                raise
            self._answers = False  # what is wrong with it shows in what is measured
            return {}


def _started_at(samples: Sequence[Sample]) -> float | None:
    """Of the process, by Prometheus' own metric of it; else the earliest moment at which a counter began."""
    for sample in samples:
        if sample.name == "process_start_time_seconds":
            return sample.value
    born = [sample.value for sample in samples if sample.name.endswith("_created") and sample.value > 1e9]
    return min(born, default=None)


def _names(models: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(entry.get("id")) for entry in models[:5]) + (", …" if len(models) > 5 else "")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
