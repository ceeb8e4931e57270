"""Loading: from a model directory and knobs to an engine that can run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import torch

from engine.core import Engine
from engine.digest import config_hash
from engine.grammar_matcher import GrammarMatchers
from engine.kernels.choice import choose_kernels
from engine.knobs import EngineKnobs
from engine.metrics import EngineMetrics
from engine.model_config import ModelConfig
from engine.resolve import TORCH_DTYPES, require_memory, resolve
from engine.weights import load_model

__all__ = ["load_engine"]


def load_engine(
    directory: Path, knobs: EngineKnobs | None = None, *, digest: str = "", say: Callable[[str], None] = lambda _: None
) -> Engine:
    """The model in `directory`, ready to serve. The calling thread must be the one that steps the engine: each thread
    that calls into OpenMP gets a team of its own, and two teams are more threads than cores.

    Args:
        digest: of the model, for the metrics to tell.
        say: told what takes long.

    Raises:
        StartRefused: the model or the knobs can't be served on this machine.
    """
    started_s = time.monotonic()
    config = ModelConfig.load(directory)
    knobs = resolve(knobs or EngineKnobs(), config)
    memory = require_memory(knobs, config)
    torch.set_num_threads(knobs.num_threads)
    name, kernels = choose_kernels(knobs, config, say)
    knobs = dataclasses.replace(knobs, kernels=name)
    metrics = EngineMetrics(config_hash(knobs.to_dict()), digest)
    kernels_s = time.monotonic()
    model = load_model(
        directory,
        config,
        kernels=kernels,
        dtype=TORCH_DTYPES[knobs.dtype],
        device=torch.device(knobs.device),
        max_model_len=knobs.max_model_len,
        quantization=knobs.quantization,
    )
    weights_s = time.monotonic()
    eos = config.eos_token_ids or eos_of_tokenizer(directory)
    matchers = GrammarMatchers(directory, config.vocab_size, eos)
    engine = Engine(model, knobs, eos=eos, matchers=matchers, metrics=metrics, memory=memory)
    metrics.info(
        "cache_config_info",
        block_size=knobs.block_size,
        num_gpu_blocks=engine.layout.num_blocks,
        cache_dtype=knobs.kv_cache_dtype,
        enable_prefix_caching=knobs.enable_prefix_caching,
    )
    metrics.startup("kernels", kernels_s - started_s)
    metrics.startup("weights", weights_s - kernels_s)
    metrics.startup("cache", time.monotonic() - weights_s)
    return engine


def eos_of_tokenizer(directory: Path) -> frozenset[int]:
    """Where neither config.json nor generation_config.json names an end of text, the tokenizer may."""
    from engine.tokenizer import ModelTokenizer  # 0.2 s that most models don't need here

    token = ModelTokenizer(directory).eos_token_id
    return frozenset(() if token is None else (token,))
