"""Peers: engines that no playbook was written for, their knobs as data, and how they are started.

They stand in the folder that $PEERS names, as for `benchmarks.peers`: `build-llama/bin/llama-server`, `venvs/vllm`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import executable, gguf
from benchmarks.surfaces.space import Space
from tools.models import pull
from tools.targets.knobs import Knob, KnobSpace, Value

__all__ = ["NAME", "PEERS", "Peer"]

NAME = "smol"
"What clients send as `model`."


@dataclass(frozen=True)
class Peer:
    """One engine: what is launched, and what is sent to it."""

    name: str
    engine: str
    scenario: str
    knobs: KnobSpace
    space: Space
    command: Callable[[Mapping[str, Value], int], list[str]]
    "Argument list of a cell on a port."
    environment: Callable[[Mapping[str, Value]], dict[str, str]]
    ready_s: float
    "How long a start may take."
    interpreter: tuple[str, ...] = ()
    "Of its fork server, in the peers' folder; none where a launch is a process of its own."
    lossy: tuple[str, ...] = ()
    "The knobs that decide over the quality; none where every cell says the same."

    def quality_of(self, at: Mapping[str, Value]) -> str:
        """`bf16/f16`: what of a cell decides over its quality."""
        return "/".join(str(at[name]) for name in self.lossy)


def _llamacpp(at: Mapping[str, Value], port: int) -> list[str]:
    file = gguf() if at["model_format"] == "bf16" else Path(os.environ["GGUF_Q4"])
    command = [executable("build-llama", "bin", "llama-server"), "-m", str(file), "--alias", NAME, "--jinja"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--threads", "1", "--threads-batch", "1", "--no-warmup"]
    command += ["--parallel", str(at["parallel"]), "--ubatch-size", str(at["ubatch_size"])]
    command += ["--ctx-size", str(at["ctx_size"]), "--cache-type-k", str(at["cache_type_k"]), "--flash-attn", "on"]
    return [*command, "--fit", "off"]


LLAMACPP = Peer(
    name="llamacpp",
    engine="llama.cpp 11434, SmolLM2-135M",
    scenario="general",
    knobs=KnobSpace(
        {
            "parallel": Knob(
                "parallel",
                "int",
                4,
                "Requests served at a time; the context is shared out among them.",
                low=1,
                high=4,
                log=True,
                unit="sequences",
                flag="--parallel",
            ),
            "ubatch_size": Knob(
                "ubatch_size",
                "int",
                512,
                "Most tokens computed in one pass.",
                low=16,
                high=512,
                log=True,
                unit="tokens",
                flag="--ubatch-size",
            ),
            "ctx_size": Knob(
                "ctx_size",
                "int",
                8192,
                "Tokens of context of all requests together; what one is left must hold its prompt and answer.",
                low=1024,
                high=32768,
                log=True,
                unit="tokens",
                flag="--ctx-size",
            ),
            "cache_type_k": Knob(
                "cache_type_k",
                "choice",
                "f16",
                "Number format of the keys in the cache.",
                choices=("f16", "q8_0", "q4_0"),
                outputs="lossy",
                flag="--cache-type-k",
            ),
            "model_format": Knob(
                "model_format",
                "choice",
                "bf16",
                "Number format of the weights: another file.",
                choices=("bf16", "q4_1"),
                outputs="lossy",
                flag="--model",
            ),
        }
    ),
    space=Space(
        levels={
            "parallel": (1, 2, 4),
            "ubatch_size": (16, 64, 512),
            "ctx_size": (1024, 8192),
            "cache_type_k": ("f16", "q8_0", "q4_0"),
            "model_format": ("bf16", "q4_1"),
        },
        default={
            "parallel": 4,
            "ubatch_size": 512,
            "ctx_size": 8192,
            "cache_type_k": "f16",
            "model_format": "bf16",
        },
        conditions={},
    ),
    command=_llamacpp,
    environment=lambda at: {},
    ready_s=30.0,
    lossy=("model_format", "cache_type_k"),
)
"""`parallel` 4 is what the server's own `auto` comes to here."""


def _vllm(at: Mapping[str, Value], port: int) -> list[str]:
    command = ["vllm", "serve", str(pull("smollm2-135m"))]
    command += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"]
    command += ["--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", str(at["max_num_seqs"])]
    command += ["--max-num-batched-tokens", str(at["max_num_batched_tokens"])]
    command += ["--enable-prefix-caching" if at["enable_prefix_caching"] else "--no-enable-prefix-caching"]
    return [*command, "--enable-chunked-prefill" if at["enable_chunked_prefill"] else "--no-enable-chunked-prefill"]


VLLM = Peer(
    name="vllm",
    engine="vLLM 0.32.0 on CPU, eager, SmolLM2-135M",
    scenario="load",
    knobs=KnobSpace(
        {
            "max_num_seqs": Knob(
                "max_num_seqs",
                "int",
                64,
                "Sequences computed together.",
                low=1,
                high=64,
                log=True,
                unit="sequences",
                flag="--max-num-seqs",
            ),
            "max_num_batched_tokens": Knob(
                "max_num_batched_tokens",
                "int",
                2048,
                "Most tokens of one step; without chunked prefill it must hold the longest prompt.",
                low=32,
                high=2048,
                log=True,
                unit="tokens",
                flag="--max-num-batched-tokens",
            ),
            "enable_prefix_caching": Knob(
                "enable_prefix_caching",
                "bool",
                True,
                "Reuse the cache of a prefix that an earlier request has computed.",
                flag="--enable-prefix-caching",
            ),
            "enable_chunked_prefill": Knob(
                "enable_chunked_prefill",
                "bool",
                True,
                "Compute long prompts in parts, beside the next tokens of others.",
                flag="--enable-chunked-prefill",
            ),
        }
    ),
    space=Space(
        levels={
            "max_num_seqs": (1, 4, 64),
            "max_num_batched_tokens": (32, 256, 2048),
            "enable_prefix_caching": (False, True),
            "enable_chunked_prefill": (False, True),
        },
        default={
            "max_num_seqs": 64,
            "max_num_batched_tokens": 2048,
            "enable_prefix_caching": True,
            "enable_chunked_prefill": True,
        },
        conditions={},
    ),
    command=_vllm,
    environment=lambda at: {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_PLUGINS": "",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
    },
    ready_s=180.0,
    interpreter=("venvs", "vllm", "bin", "python"),
)

PEERS: Mapping[str, Peer] = {peer.name: peer for peer in (LLAMACPP, VLLM)}
