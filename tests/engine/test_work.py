"""The closed form of a step's bytes and operations against counting them one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.model_config import ModelConfig
from engine.work import ModelWork

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}

chunk = st.tuples(st.integers(1, 20), st.integers(0, 40))


def model_work(windows: tuple[tuple[int, int], ...] = ()) -> ModelWork:
    config = ModelConfig.from_json(LLAMA)
    return ModelWork.of(config, weight_bytes=1000, head_bytes=200, bytes_per_value=2, windows=windows)


@given(st.lists(chunk, min_size=1, max_size=6), st.sampled_from([(), ((0, 1), (5, 5)), ((1, 6),), ((16, 3), (0, 3))]))
def test_closed_form_equals_counting(chunks: list[tuple[int, int]], windows: tuple[tuple[int, int], ...]) -> None:
    work = model_work(windows)
    queries = np.array([new for new, _ in chunks])
    contexts = np.array([new + before for new, before in chunks])
    pairs = read = 0
    for window, layers in windows or ((0, 6),):
        for new, before in chunks:
            seen: set[int] = set()
            for position in range(before, before + new):
                first = max(0, position + 1 - window) if window else 0
                pairs += layers * (position + 1 - first)
                seen |= set(range(first, position + 1))
            read += layers * len(seen)
    got = work.step(queries, contexts, num_logits=len(chunks))
    kv_bytes = 2 * 2 * 8 * 2
    assert got.read_bytes == 1000 + 200 + read * kv_bytes
    assert got.write_bytes == queries.sum() * 6 * kv_bytes
    linears = queries.sum() * work.flops_per_token + len(chunks) * work.flops_per_logits
    assert got.flops == linears + pairs * 4 * 4 * 8


def test_a_token_costs_two_operations_a_parameter() -> None:
    config = ModelConfig.from_json(LLAMA)
    work = model_work()
    assert work.flops_per_token + work.flops_per_logits == 2 * config.num_parameters
    untied = ModelConfig.from_json({**LLAMA, "tie_word_embeddings": False})
    assert ModelWork.of(untied, weight_bytes=0, head_bytes=0, bytes_per_value=2).flops_per_token == work.flops_per_token


def test_a_step_without_logits_does_not_read_the_head() -> None:
    one = np.array([3])
    assert model_work().step(one, one, 1).read_bytes - model_work().step(one, one, 0).read_bytes == 200
