"""Limits: whether knobs fit a model, and a request the engine. Needs no torch, so a misfit is told at once."""

from __future__ import annotations

from collections.abc import Sequence as ReadOnlyList

from engine.errors import RequestRefused, StartRefused
from engine.knobs import EngineKnobs
from engine.model_config import ModelConfig
from engine.sampling import SamplingParams

__all__ = ["check_request", "context_limit"]


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


def check_request(prompt: ReadOnlyList[int], params: SamplingParams, max_model_len: int, vocab_size: int) -> None:
    """Whether an engine of `max_model_len` and `vocab_size` tokens can serve the request.

    Raises:
        RequestRefused: an empty or over-long prompt, a token the model doesn't have, or too many tokens asked for.
    """
    count = len(prompt)
    if not count:
        raise RequestRefused("the prompt is empty", param="prompt")
    if count > max_model_len - 1:
        raise RequestRefused(
            f"the prompt has {count} tokens; the limit is {max_model_len - 1} "
            f"(max_model_len {max_model_len}, less one for the answer). Shorten it",
            code="context_length_exceeded",
            param="prompt",
        )
    if count + params.max_tokens > max_model_len:
        raise RequestRefused(
            f"max_tokens is {params.max_tokens} and the prompt has {count} tokens, together "
            f"{count + params.max_tokens}; the limit is {max_model_len} (max_model_len). "
            f"Ask for at most {max_model_len - count}",
            code="context_length_exceeded",
            param="max_tokens",
        )
    biased = [token for token, _ in params.logit_bias]
    for name, tokens in (("prompt", prompt), ("stop_token_ids", params.stop_token_ids), ("logit_bias", biased)):
        if tokens and not 0 <= min(tokens) <= max(tokens) < vocab_size:
            raise RequestRefused(
                f"{name} has token ids from {min(tokens)} to {max(tokens)}; the model knows 0 to {vocab_size - 1}",
                param=name,
            )
