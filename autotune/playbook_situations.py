"""Deployments to try playbooks in: models from tiny to large on machines from tight to roomy, none of them started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from agents.engines import FOREIGN, EngineName
from agents.situations import Situation, Starts, draw_config, draw_situation
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config, KnobError, KnobSpace

__all__ = ["engine_spaces", "playbook_situations"]

_LEAST_HEADROOM, _MOST_HEADROOM = 1.25, 20.0
"""Memory of a drawn machine, in what the baseline needs. One that is full already is told so when it launches."""

_CORES = (1, 2, 4, 16, 64)

_Json = Mapping[str, Any]

_LLAMA: _Json = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "dtype": "bfloat16",
    "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"},
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _shape(hidden: int, inner: int, layers: int, heads: tuple[int, int, int], words: int, longest: int) -> _Json:
    """config.json of a model with `heads` = (query heads, key heads, values in a head)."""
    return {
        **_LLAMA,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "vocab_size": words,
        "max_position_embeddings": longest,
        "tie_word_embeddings": hidden < 2048,
    }


_MODELS: Mapping[str, _Json] = {
    "a model of 0.1 million": _shape(64, 128, 2, (4, 2, 16), 512, 512),
    "a model of 135 million": _shape(576, 1536, 30, (9, 3, 64), 49_152, 8192),
    "a model of 270 million with many words": _shape(640, 2048, 18, (4, 1, 256), 262_144, 32_768),
    "a model of 8 billion": _shape(4096, 14_336, 32, (32, 8, 128), 128_256, 32_768),
}


@contextmanager
def playbook_situations(count: int, seed: int = 0) -> Iterator[tuple[Situation, ...]]:
    """`count` situations of the bundled engine and a quarter as many of each other one, mixed; a seed gives the same.

    They can be asked whether a config starts for as long as the block runs: the models' shapes lie in a folder.
    """
    random = Random(seed)
    with TemporaryDirectory(prefix="autotune-shapes-") as folder:
        targets = [
            (name, BundledTarget(_written(Path(folder) / str(index), shape), device))
            for index, (name, shape) in enumerate(_MODELS.items())
            for device in ("cpu", "cpu", "cuda")
        ]
        drawn = [_bundled(*targets[index % len(targets)], random) for index in range(count)]
        for engine, space in FOREIGN.items():
            drawn += [_foreign(engine, space, random) for _ in range(-(-count // 4))]
        random.shuffle(drawn)
        yield tuple(drawn)


def engine_spaces() -> dict[EngineName, KnobSpace]:
    """Every knob that a playbook may name, by engine."""
    return {"bundled": BundledTarget(Path()).knobs, **FOREIGN}


def _written(directory: Path, shape: _Json) -> Path:
    """A directory that states `shape` and holds no weights: asked for its needs, never loaded."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(shape))
    (directory / "model.safetensors").touch()
    return directory


def _bundled(name: str, target: BundledTarget, random: Random) -> Situation:
    while True:
        baseline = draw_config(target.knobs, random).patched({"kv_cache_dtype": "auto"})
        try:
            need_bytes = target.memory(baseline).total_bytes
        except KnobError:
            continue
        memory_bytes = int(need_bytes * random.uniform(_LEAST_HEADROOM, _MOST_HEADROOM))
        break
    cores = random.choice(_CORES)
    space = target.narrowed(target.knobs, baseline, cores=cores, memory_bytes=memory_bytes)

    def starts(config: Config) -> str:
        try:
            needs_bytes = target.memory(config).total_bytes
        except KnobError as error:
            return str(error)
        fits = needs_bytes <= memory_bytes
        return "" if fits else f"it needs {needs_bytes / 2**30:.2f} GiB of {memory_bytes / 2**30:.2f} GiB"

    hardware = {"cores": float(cores), "memory_bytes": float(memory_bytes), "gpus": 0.0}
    if target.device == "cuda":
        hardware |= {"gpus": 1.0, "gpu_memory_bytes": float(memory_bytes)}
    return draw_situation(
        "bundled",
        f"{name} on {cores} cores with {memory_bytes / 2**30:.2f} GiB ({target.device})",
        space.only(frozenset(knob.name for knob in space if knob.tunable)),
        baseline,
        starts,
        longest=int(_MODELS[name]["max_position_embeddings"]),
        hardware=hardware,
        random=random,
    )


def _foreign(engine: EngineName, space: KnobSpace, random: Random) -> Situation:
    starts = _STARTS.get(engine, _always)
    baseline = draw_config(space, random)
    while starts(baseline):
        baseline = draw_config(space, random)
    gpus = random.choice([0.0, 1.0])
    hardware = {"cores": float(random.choice(_CORES)), "memory_bytes": 6.4e10, "gpus": gpus}
    if gpus:
        hardware["gpu_memory_bytes"] = 8e10
    about = f"{engine} on a machine with {gpus:.0f} GPUs"
    return draw_situation(engine, about, space, baseline, starts, longest=8192, hardware=hardware, random=random)


def _always(_: Config) -> str:
    return ""


def _vllm(config: Config) -> str:
    """What vLLM's scheduler config refuses."""
    tokens, seats = config.values["max_num_batched_tokens"], config.values["max_num_seqs"]
    assert isinstance(tokens, int) and isinstance(seats, int)
    return "" if tokens >= seats else f"max_num_batched_tokens {tokens} is below max_num_seqs {seats}"


_STARTS: Mapping[EngineName, Starts] = {"vllm": _vllm}
