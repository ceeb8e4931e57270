"""Fields that clients send and that need not, or must not, be acted on."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from engine.errors import RequestRefused

__all__ = ["without_neutral"]

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": ("",),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": ("medium",),
    "web_search_options": (),
    "moderation": (),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "spaces_between_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "truncation_side": (),
    "allowed_token_ids": (),
    "logprob_token_ids": (),
    "bad_words": ([],),
    "chat_template": (),
    "include_reasoning": (True, False),
    "thinking_token_budget": (),
    "watermarking": (False,),
    "return_prompt_text": (False,),
    "guided_decoding_backend": (),
    "guided_whitespace_pattern": (),
    "kv_transfer_params": (),
    "prompt_cache_options": (),
    "vllm_xargs": ({},),
}
"""Fields the engine knows and doesn't have, with the values that ask for nothing. Any other value is refused."""

HARMLESS = frozenset(("user", "store", "metadata", "service_tier", "safety_identifier", "session_id", "cache_salt")) | {
    "prompt_cache_key",
    "prompt_cache_retention",
}
"""Fields that change nothing about the answer."""


def same(value: Any, neutral: Any) -> bool:
    """Equal, and both or neither a bool: `audio: 0` asks for something, `audio: false` doesn't."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)


def without_neutral(data: dict[str, Any], fields: Container[str]) -> dict[str, Any]:
    """`data` without what changes nothing; `fields` are those that the endpoint reads.

    Raises:
        RequestRefused: a field we know, don't have, and that asks for something.
    """
    kept = {}
    for name, value in data.items():
        if name in HARMLESS:
            continue
        if name in NEUTRAL and name not in fields:
            if value is not None and not any(same(value, neutral) for neutral in NEUTRAL[name]):
                raise RequestRefused(f"{name} is not supported", code="unsupported_parameter", param=name)
            continue
        kept[name] = value
    return kept
