"""Defaults: what a server does where a request names no sampling parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from tools.canonical import digest
from tools.evals.asker import CHAT, COMPLETIONS, Asker, NoAnswer, choice, unreachable
from tools.evals.told_tokens import answer_logprobs, token_ids

__all__ = ["DEFAULT_REQUESTS", "MAX_TOKENS", "SAMPLES", "Defaults", "record_defaults"]

SAMPLES = 12
"Answers to each request. Two launches an arm with SmolLM2-135M tell temperature 0.8 or top-k 50 from neither."
MAX_TOKENS = 4

DEFAULT_REQUESTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (COMPLETIONS, {"prompt": "My favourite word is"}),
    (COMPLETIONS, {"prompt": "She opened the box and found"}),
    (COMPLETIONS, {"prompt": "Far away there lived"}),
    (CHAT, {"messages": [{"role": "user", "content": "Write the first line of a poem."}]}),
)
"""Paths and bodies. Each can go on in many ways, so that the distribution has something to show."""


@dataclass(frozen=True)
class Defaults:
    """Answers by the digest of their request."""

    tokens: Mapping[str, tuple[tuple[int, ...], ...]]
    "Ids of each answer's tokens."
    nats: Mapping[str, tuple[float, ...]]
    "Sum of each answer's log-probabilities."


async def record_defaults(asker: Asker) -> Defaults:
    """Several answers to each request.

    Raises:
        LaunchFailed: kind `unreachable`; the server refused, or its answers hold no token ids or log-probabilities.
    """
    order = [(path, body) for _ in range(SAMPLES) for path, body in DEFAULT_REQUESTS]
    try:
        answers = await asker.all(_answer(asker, path, body) for path, body in order)
    except NoAnswer as fault:
        raise unreachable(f"a request without sampling parameters could not be used: {fault}") from fault
    found: dict[str, list[tuple[tuple[int, ...], float]]] = {}
    for (path, body), answer in zip(order, answers, strict=True):
        found.setdefault(digest([path, dict(body)]), []).append(answer)
    return Defaults(
        {request: tuple(ids for ids, _ in several) for request, several in found.items()},
        {request: tuple(nats for _, nats in several) for request, several in found.items()},
    )


async def _answer(asker: Asker, path: str, body: Mapping[str, Any]) -> tuple[tuple[int, ...], float]:
    asked = {**body, "max_tokens": MAX_TOKENS, "return_token_ids": True, "logprobs": True if path == CHAT else 1}
    said = choice(await asker.ask(path, asked))
    return token_ids(said), fsum(answer_logprobs(said))
