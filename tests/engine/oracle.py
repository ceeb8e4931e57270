"""A model run by hand in batches of a random make, and transformers as the judge of what it says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from engine.kernels import Kernels
from engine.kernels.torch_kernels import TorchKernels
from engine.kv_cache import KVLayout
from engine.model import Model
from engine.model_config import ModelConfig
from engine.weights import load_model
from tests.engine.batches import Pages, make_batch

__all__ = ["Answer", "answer_greedily", "assert_same_as_transformers", "load"]


def load(
    directory: Path,
    dtype: torch.dtype = torch.float32,
    quantization: str = "none",
    kernels: Kernels | None = None,
) -> Model:
    config = ModelConfig.load(directory)
    return load_model(
        directory,
        config,
        kernels=kernels or TorchKernels(),
        dtype=dtype,
        device=torch.device("cpu"),
        max_model_len=min(config.max_position_embeddings, 1024),
        quantization=quantization,
    )


@dataclass
class Answer:
    """One request: its tokens so far, and the logits of some of their positions."""

    tokens: list[int]
    num_prompt: int
    computed: int = 0
    logits: dict[int, Tensor] = field(default_factory=dict)


def answer_greedily(
    model: Model,
    prompts: list[list[int]],
    max_tokens: int,
    *,
    every_logit: bool,
    block_size: int = 16,
    left_behind: float = 0.0,
) -> list[Answer]:
    """Answers to `prompts`, computed together in batches of a random make: which requests advance, and by how much of
    their prompts, is drawn anew for each step.

    Args:
        left_behind: what the cache's blocks hold before anything is written.
    """
    draw = random.Random(0)
    config, kernels = model.config, model.kernels
    blocks = sum(-(-(len(prompt) + max_tokens) // block_size) for prompt in prompts) + 1
    layout = KVLayout(blocks, block_size, config.num_kv_heads, config.head_dim)
    cache = kernels.cache(layout, config.num_layers, model.dtype, model.device)
    for layer in cache.layers if left_behind else ():
        layer.fill_(left_behind)
    pages = Pages(layout)
    answers = [Answer(list(prompt), len(prompt)) for prompt in prompts]
    for step in steps(answers, max_tokens, draw):
        batch = make_batch(
            [(answers[index].computed + count, count) for index, count in step],
            pages,
            tokens=[answers[index].tokens for index, _ in step],
            sequences=[index for index, _ in step],
            wanted=list(range(sum(count for _, count in step))) if every_logit else None,
        )
        with torch.inference_mode():
            logits = model.forward(batch, kernels.plan(batch), cache).float()
        row = 0
        for index, count in step:
            answer = answers[index]
            for position in range(
                answer.computed if every_logit else answer.computed + count - 1, answer.computed + count
            ):
                answer.logits[position] = logits[row]
                row += 1
            answer.computed += count
            if answer.computed == len(answer.tokens):
                answer.tokens.append(int(logits[row - 1].argmax()))
    return answers


def steps(answers: list[Answer], max_tokens: int, draw: random.Random) -> Iterator[list[tuple[int, int]]]:
    """Which answers advance by how many tokens, until each has `max_tokens`; single tokens first."""
    while True:
        unfinished = [i for i, answer in enumerate(answers) if len(answer.tokens) < answer.num_prompt + max_tokens]
        if not unfinished:
            return
        chosen = draw.sample(unfinished, draw.randint(1, len(unfinished)))
        counts = [(i, draw.randint(1, min(100, len(answers[i].tokens) - answers[i].computed))) for i in chosen]
        yield sorted(counts, key=lambda item: item[1] != 1)


def assert_same_as_transformers(
    directory: Path, prompts: list[list[int]], max_tokens: int, *, every_logit: bool, block_size: int = 16
) -> float:
    """Largest distance of our logits from transformers', as a share of their own norm. A greedy answer is right if each
    token is what transformers finds most likely after those before it."""
    answers = answer_greedily(load(directory), prompts, max_tokens, every_logit=every_logit, block_size=block_size)
    oracle = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    worst = 0.0
    for answer in answers:
        with torch.inference_mode():
            keep = len(answer.tokens) if every_logit else max_tokens + 1
            expected = oracle(torch.tensor([answer.tokens]), logits_to_keep=keep).logits[0]
        first = len(answer.tokens) - keep
        assert expected[answer.num_prompt - 1 - first : -1].argmax(-1).tolist() == answer.tokens[answer.num_prompt :]
        for position in range(answer.num_prompt - 1 if not every_logit else 0, len(answer.tokens) - 1):
            difference = (answer.logits[position] - expected[position - first]).norm() / expected[
                position - first
            ].norm()
            worst = max(worst, float(difference))
    assert worst < 1e-4
    return worst
