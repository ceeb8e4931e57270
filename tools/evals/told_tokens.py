"""Which tokens a choice consists of, and how likely each was, in whichever of the servers' forms they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.evals.asker import NoAnswer

__all__ = ["alternatives", "answer_logprobs", "token_ids"]


def token_ids(said: Mapping[str, Any]) -> tuple[int, ...]:
    """Ids of a choice's tokens; text is never compared, since two texts can look alike and differ in tokens.

    They stand under `token_ids` (vLLM, SGLang, this project's engine) or with the log-probabilities (llama.cpp).

    Raises:
        NoAnswer: it holds none.
    """
    ids = said.get("token_ids")
    if ids is None:
        ids = [each.get("id") for each in _content(said) or ()]
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise NoAnswer(f"expected token_ids in the choice, found {str(dict(said))[:200]}")
    return tuple(ids)


def answer_logprobs(said: Mapping[str, Any]) -> list[float]:
    """Log-probabilities of a choice's own tokens.

    Raises:
        NoAnswer: it holds none.
    """
    told = said.get("logprobs")
    try:
        content = _content(said)
        if content is not None:
            return [float(each["logprob"]) for each in content]
        return [float(logprob) for logprob in told["token_logprobs"]] if told is not None else []
    except (KeyError, TypeError, ValueError):
        raise NoAnswer(f"expected log-probabilities of the answer's tokens, found {str(told)[:200]}") from None


def alternatives(said: Mapping[str, Any]) -> dict[str, float]:
    """The likeliest tokens in place of a choice's first, as texts, with their log-probabilities.

    Raises:
        NoAnswer: it holds none.
    """
    told = said.get("logprobs")
    try:
        content = _content(said)
        if content is None:
            found = dict(told["top_logprobs"][0]) if told is not None else {}
        else:
            found = {each["token"]: each["logprob"] for each in content[0]["top_logprobs"]}
        if found:
            return {str(token): float(logprob) for token, logprob in found.items()}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        pass
    raise NoAnswer(f"expected log-probabilities of a first token's alternatives, found {str(told)[:200]}")


def _content(said: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The log-probabilities in the form of chat completions; llama.cpp has that one for completions too."""
    told = said.get("logprobs")
    content = told.get("content") if isinstance(told, Mapping) else None
    return content if isinstance(content, list) else None
