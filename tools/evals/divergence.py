"""Greedy divergence: the fixed prompts, answered at temperature 0 while the server is busy with all of them at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tools.canonical import digest
from tools.evals.agreement import GreedyOutputs, agreement
from tools.evals.asker import CHAT, TIMEOUT_S, Asker, NoAnswer, choice, open_asker, unreachable
from tools.evals.prompts import GREEDY_PROMPTS
from tools.evals.told_tokens import token_ids
from tools.targets.target import Endpoint

__all__ = ["MAX_TOKENS", "GreedyOutputs", "agreement", "answer_greedily", "record_greedy"]

MAX_TOKENS = 8
"""Short, because in bf16 another batch composition flips a near-tie after some 60 tokens, and what follows differs.

Measured with SmolLM2-135M in bf16, 24 prompts: at 8 tokens lossless changes agree to 0.90 or more (launches of one
config to 0.96 or more), weights rounded to 6 bits to 0.79, to 4 bits to 0.27. At 48 tokens lossless changes reach down
to 0.68: what is lost and what merely flipped overlap. In fp32 lossless changes agree fully at any length.
"""


def record_greedy(
    endpoint: Endpoint,
    prompts: Sequence[str] = GREEDY_PROMPTS,
    max_tokens: int = MAX_TOKENS,
    order_seed: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> GreedyOutputs:
    """As `answer_greedily`, by an asker of its own."""

    async def record() -> GreedyOutputs:
        async with open_asker(endpoint, timeout_s) as asker:
            return await answer_greedily(asker, prompts, max_tokens, order_seed)

    return asyncio.run(record())


async def answer_greedily(asker: Asker, prompts: Sequence[str], max_tokens: int, order_seed: int) -> GreedyOutputs:
    """The endpoint's greedy answers, as token ids.

    All prompts are sent at once, in an order shuffled by `order_seed`, so that batches are composed differently each
    time, as under load. Comparing two recordings of one config thus shows how much it differs from itself.

    Raises:
        LaunchFailed: kind `unreachable`; the server refused a prompt, or its answer holds no token ids.
    """
    order = list(prompts)
    random.Random(order_seed).shuffle(order)
    try:
        answers = await asker.all(_answer(asker, prompt, max_tokens) for prompt in order)
    except NoAnswer as fault:
        raise unreachable(f"a greedy prompt could not be used: {fault}") from fault
    return GreedyOutputs({digest(prompt): ids for prompt, ids in zip(order, answers, strict=True)})


async def _answer(asker: Asker, prompt: str, max_tokens: int) -> tuple[int, ...]:
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "return_token_ids": True,
        "logprobs": True,  # with which some servers tell them
    }
    return token_ids(choice(await asker.ask(CHAT, body)))
