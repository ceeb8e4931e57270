"""Greedy divergence: the fixed prompts, answered at temperature 0 while the server is busy with all of them at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import aiohttp

from tools.canonical import digest
from tools.evals.agreement import GreedyOutputs, agreement
from tools.evals.prompts import GREEDY_PROMPTS
from tools.targets.target import Endpoint, LaunchFailed

__all__ = ["GreedyOutputs", "agreement", "record_greedy"]

MAX_TOKENS = 8
"""Short, because in bf16 another batch composition flips a near-tie after some 60 tokens, and what follows differs.

Measured with SmolLM2-135M in bf16, 24 prompts: at 8 tokens lossless changes agree to 0.90 or more (launches of one
config to 0.96 or more), weights rounded to 6 bits to 0.79, to 4 bits to 0.27. At 48 tokens lossless changes reach down
to 0.68: what is lost and what merely flipped overlap. In fp32 lossless changes agree fully at any length.
"""
TIMEOUT_S = 300.0


def record_greedy(
    endpoint: Endpoint,
    prompts: Sequence[str] = GREEDY_PROMPTS,
    max_tokens: int = MAX_TOKENS,
    order_seed: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> GreedyOutputs:
    """The endpoint's greedy answers, as token ids.

    All prompts are sent at once, in an order shuffled by `order_seed`, so that batches are composed differently each
    time, as under load. Comparing two recordings of one config thus shows how much it differs from itself.

    Raises:
        LaunchFailed: kind `unreachable`; the server refused a prompt, or its answer holds no token ids.
    """
    return asyncio.run(_record(endpoint, prompts, max_tokens, order_seed, timeout_s))


async def _record(
    endpoint: Endpoint, prompts: Sequence[str], max_tokens: int, order_seed: int, timeout_s: float
) -> GreedyOutputs:
    order = list(prompts)
    random.Random(order_seed).shuffle(order)
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    async with aiohttp.ClientSession(
        endpoint.base_url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        connector=aiohttp.TCPConnector(limit=0),
    ) as session:
        answers = await asyncio.gather(*(_answer(session, endpoint.model, prompt, max_tokens) for prompt in order))
    return GreedyOutputs({digest(prompt): ids for prompt, ids in zip(order, answers, strict=True)})


async def _answer(session: aiohttp.ClientSession, model: str, prompt: str, max_tokens: int) -> tuple[int, ...]:
    request = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "return_token_ids": True,
    }
    try:
        async with session.post("/v1/chat/completions", json=request) as response:
            body: Any = await response.json(content_type=None) if response.status == 200 else await response.text()
            status = response.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise LaunchFailed("unreachable", f"a greedy prompt got no answer: {type(error).__name__}: {error}") from error
    if status != 200:
        raise LaunchFailed("unreachable", f"a greedy prompt was answered {status}: {body[:200]}")
    return _token_ids(body)


def _token_ids(body: Any) -> tuple[int, ...]:
    """Ids of the one choice's tokens; text is never compared, since two texts can look alike and differ in tokens."""
    choices = body.get("choices") if isinstance(body, dict) else None
    ids = choices[0].get("token_ids") if isinstance(choices, list) and choices else None
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise LaunchFailed("unreachable", f"expected choices[0].token_ids in the answer, found {str(body)[:200]}")
    return tuple(ids)
