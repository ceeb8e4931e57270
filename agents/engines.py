"""Engines: what playbooks may name of engines other than the bundled one, whose knobs its own target tells.

Names are the engines' flags with underscores (of vLLM 0.32 on CPUs its variables too, llama.cpp's in its short words).
Ranges are what is worth trying, not all that the engines take. A target of such an engine may have fewer of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tools.targets.knobs import Knob, KnobSpace

__all__ = ["FOREIGN", "EngineName"]

EngineName = Literal["bundled", "vllm", "sglang", "llamacpp"]


def _space(*knobs: Knob) -> KnobSpace:
    return KnobSpace({knob.name: knob for knob in knobs})


def _int(name: str, default: int, low: int, high: int, meaning: str) -> Knob:
    return Knob(name, "int", default, meaning, low=low, high=high, log=low > 0)


def _bool(name: str, default: bool, meaning: str) -> Knob:
    return Knob(name, "bool", default, meaning)


def _choice(name: str, choices: tuple[str, ...], meaning: str) -> Knob:
    return Knob(name, "choice", choices[0], meaning, choices=choices, outputs="lossy")


FOREIGN: Mapping[EngineName, KnobSpace] = {
    "vllm": _space(
        _int("max_num_seqs", 256, 1, 2048, "Sequences computed together."),
        _int("max_num_batched_tokens", 2048, 16, 65536, "Most tokens of one step, prompts and new tokens together."),
        _int("long_prefill_token_threshold", 0, 0, 65536, "Most prompt tokens of one sequence in a step; 0: no limit."),
        Knob("block_size", "choice", 16, "Tokens in a block of the KV cache.", choices=(16, 32, 64, 128)),
        _bool("enable_prefix_caching", True, "Reuse a prefix that was computed before."),
        _bool("enable_chunked_prefill", True, "Read prompts in piece by piece."),
        _bool("enforce_eager", False, "Don't compile and record steps at start-up."),
        _bool("async_scheduling", True, "Prepare the next step while this one is computed."),
        _int("cpu_kvcache_space", 4, 1, 512, "GiB of the KV cache on a CPU (VLLM_CPU_KVCACHE_SPACE)."),
        Knob("gpu_memory_utilization", "float", 0.92, "Share of a GPU's memory that is used.", low=0.5, high=0.98),
        _int("num_speculative_tokens", 0, 0, 16, "Tokens guessed per step; 0: none."),
        _choice("kv_cache_dtype", ("auto", "fp8"), "Number format of the KV cache."),
        _choice("quantization", ("none", "fp8"), "Number format of the weights."),
        _choice("dtype", ("auto", "bfloat16", "float16", "float32"), "Number format of the activations."),
    ),
    "sglang": _space(
        _int("max_running_requests", 256, 1, 2048, "Sequences computed together."),
        _int("chunked_prefill_size", 8192, 256, 65536, "Most prompt tokens of one step."),
        Knob("mem_fraction_static", "float", 0.88, "Share of memory for weights and KV cache.", low=0.5, high=0.96),
        Knob("schedule_conservativeness", "float", 1.0, "How much room is kept for answers.", low=0.3, high=2.0),
        _bool("disable_radix_cache", False, "Forget prefixes."),
        _bool("enable_mixed_chunk", False, "Prompts and new tokens in one step."),
        _choice("kv_cache_dtype", ("auto", "fp8_e4m3", "fp8_e5m2"), "Number format of the KV cache."),
        _choice("quantization", ("none", "fp8"), "Number format of the weights."),
    ),
    "llamacpp": _space(
        _int("parallel", 1, 1, 256, "Sequences computed together (slots)."),
        _int("batch", 2048, 32, 16384, "Most tokens of one step, as they are scheduled."),
        _int("ubatch", 512, 32, 16384, "Most tokens that are computed at once."),
        _int("threads", 0, 0, 256, "CPU threads of generation; 0: all."),
        _bool("flash_attn", False, "Attention without writing the scores out."),
        _bool("cont_batching", True, "Sequences come and go between steps."),
        _choice("cache_type_k", ("f16", "bf16", "q8_0", "q4_0"), "Number format of the keys."),
        _choice("cache_type_v", ("f16", "bf16", "q8_0", "q4_0"), "Number format of the values."),
    ),
}
