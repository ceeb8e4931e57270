"""Dialect: which words of an engine's command say what a deployment says in fields of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tools.targets.engine_name import EngineName

__all__ = ["DIALECTS", "Dialect", "Field"]

Field = Literal["model", "hub", "served_name", "address"]
"""hub: a model that the engine fetches by its name; address: where it listens."""


@dataclass(frozen=True)
class Dialect:
    """One engine's words for what isn't a knob."""

    command: tuple[str, ...]
    "What it is started with where a deployment doesn't say."
    flags: Mapping[str, Field]
    secrets: frozenset[str]
    "Flags whose value nobody may copy."
    positional: bool = False
    "Whether the model may stand before all flags."
    underscores: bool = False
    "Whether --served_model_name is --served-model-name."
    variables: Mapping[str, Field] = field(default_factory=dict)
    "The same in variables."


def _all(field: Field, *flags: str) -> dict[str, Field]:
    return dict.fromkeys(flags, field)


DIALECTS: Mapping[EngineName, Dialect] = {
    "vllm": Dialect(
        command=("vllm",),
        flags=_all("model", "--model")
        | _all("served_name", "--served-model-name")
        | _all("address", "--host", "--port", "--uds"),
        secrets=frozenset({"--api-key", "--hf-token"}),
        positional=True,
        underscores=True,
    ),
    "sglang": Dialect(
        command=("python", "-m", "sglang.launch_server"),
        flags=_all("model", "--model-path", "--model")
        | _all("served_name", "--served-model-name")
        | _all("address", "--host", "--port", "--nccl-port"),
        secrets=frozenset({"--api-key", "--admin-api-key"}),
        underscores=True,
    ),
    "llamacpp": Dialect(
        command=("llama-server",),
        flags=_all("model", "--model", "-m")
        | _all("served_name", "--alias", "-a")
        | _all("address", "--host", "--port")
        | _all("hub", "--hf-repo", "-hf", "-hfr", "--hf-file", "-hff", "--model-url", "-mu"),
        secrets=frozenset({"--api-key", "--api-key-file", "--hf-token", "-hft"}),
        variables={
            "LLAMA_ARG_MODEL": "model",
            "LLAMA_ARG_ALIAS": "served_name",
            "LLAMA_ARG_HOST": "address",
            "LLAMA_ARG_PORT": "address",
            "LLAMA_ARG_HF_REPO": "hub",
            "LLAMA_ARG_HF_FILE": "hub",
            "LLAMA_ARG_MODEL_URL": "hub",
        },
    ),
}
"""The bundled engine's own commands are none that a foreign server has to be imported from."""
