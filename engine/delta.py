"""Delta: what one step added to one request. Needs no torch: the server reads these in a process of its own."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.logprobs import TokenLogprobs

__all__ = ["Delta", "FinishReason"]

FinishReason = Literal["stop", "length", "abort", "deadline", "error"]


class Delta(NamedTuple):
    """New tokens of a request, and whether they are the last."""

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None
    "`stop`: the last token is an end of text or a stop token, and no part of the answer's text."
    num_cached_tokens: int
    logprobs: tuple[TokenLogprobs, ...] = ()
    "One for each token, where asked for."
    prompt_logprobs: tuple[TokenLogprobs | None, ...] = ()
    "One for each token of the prompt, on the first delta, where asked for. Nothing precedes the first token: None."
