"""Limits: whether knobs and model fit each other. Needs no torch, so a misfit is told at once."""

from __future__ import annotations

from engine.errors import StartRefused
from engine.knobs import EngineKnobs
from engine.model_config import ModelConfig

__all__ = ["context_limit"]


def context_limit(knobs: EngineKnobs, model: ModelConfig) -> int:
    """Most tokens of one sequence: what is asked for, or what the model was made for.

    Raises:
        StartRefused: kind bad_config; more than the model was made for, or than the KV cache holds.
    """
    limit = knobs.max_model_len or model.max_position_embeddings
    if limit > model.max_position_embeddings:
        raise StartRefused(
            "bad_config",
            f"--max-model-len is {limit}, but the model was made for {model.max_position_embeddings} tokens",
        )
    if limit < 2:
        raise StartRefused("bad_config", "--max-model-len is 1: there is no room for a prompt and an answer")
    capacity = knobs.kv_cache_tokens // knobs.block_size * knobs.block_size
    if capacity < limit:
        raise StartRefused(
            "bad_config",
            f"--kv-cache-tokens is {knobs.kv_cache_tokens} ({capacity} in whole blocks of {knobs.block_size}), but one "
            f"sequence may have {limit}; raise it, or lower --max-model-len",
        )
    return limit
