"""The model is transformers' model: the same logits, and token for token the same greedy answers."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from engine.errors import StartRefused
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch
from tests.engine.oracle import answer_greedily, assert_same_as_transformers, load
from tests.engine.test_model_config import LLAMA3_ROPE
from tests.tiny_model import GEMMA3_CONFIG, build_tiny_model

WORDS = Path(__file__).read_text().split()
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
GEMMA3_LOCAL_ONLY = {**GEMMA3_CONFIG["rope_parameters"], "full_attention": {"rope_type": "default"}}


def random_prompts(count: int, longest: int) -> list[list[int]]:
    draw = random.Random(1)
    return [[draw.randrange(512) for _ in range(draw.randint(1, longest))] for _ in range(count)]


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"tie_word_embeddings": False, "num_key_value_heads": 1},
        {"rope_parameters": LLAMA3_ROPE, "num_key_value_heads": 4},
        {"attention_bias": True, "mlp_bias": True, "num_attention_heads": 8, "head_dim": 24},
        {"rope_parameters": YARN_ROPE, "head_dim": 32},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}},
        {"model_type": "mistral"},
        {"model_type": "mistral", "sliding_window": 40},
        {"model_type": "qwen2"},
        {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 33, "max_window_layers": 1},
        {"model_type": "qwen3", "head_dim": 32, "rope_parameters": YARN_ROPE | {"attention_factor": 1.5}},
        {
            "model_type": "qwen3",
            "use_sliding_window": True,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        {"model_type": "gemma3_text"},
        {"model_type": "gemma3_text", "rope_parameters": GEMMA3_LOCAL_ONLY, "num_key_value_heads": 1, "head_dim": 32},
    ],
    ids=lambda overrides: ", ".join(f"{key} {value}" for key, value in overrides.items())[:60] or "llama",
)
def test_logits_and_greedy_answers_equal_those_of_transformers(tmp_path: Path, overrides: dict[str, Any]) -> None:
    directory = build_tiny_model(tmp_path / "model", **overrides)
    assert_same_as_transformers(directory, random_prompts(12, 200), 24, every_logit=True)


@pytest.mark.parametrize("block_size", [32, 64])
def test_the_size_of_a_block_changes_nothing(tmp_path: Path, block_size: int) -> None:
    directory = build_tiny_model(tmp_path / "model", model_type="gemma3_text")
    assert_same_as_transformers(directory, random_prompts(6, 200), 16, every_logit=True, block_size=block_size)


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
def test_what_others_left_in_the_cache_is_never_seen(tmp_path: Path, model_type: str) -> None:
    """Not even a NaN, which survives being masked; block 0, with which tables are padded, isn't anybody's."""
    model, prompts = load(build_tiny_model(tmp_path / "model", model_type=model_type)), random_prompts(8, 120)
    clean = answer_greedily(model, prompts, 24, every_logit=False)
    poisoned = answer_greedily(model, prompts, 24, every_logit=False, left_behind=float("nan"))
    assert [answer.tokens for answer in poisoned] == [answer.tokens for answer in clean]


@pytest.mark.skipif("AUTOTUNE_TEST_MODEL" not in os.environ, reason="AUTOTUNE_TEST_MODEL names no model directory")
def test_a_real_model_answers_as_transformers_does(record_property: Any) -> None:
    directory = Path(os.environ["AUTOTUNE_TEST_MODEL"])
    tokenizer = AutoTokenizer.from_pretrained(directory)
    draw = random.Random(0)
    prompts = []
    for index in range(12):
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 300)))
        if index % 3 == 0 and tokenizer.chat_template:
            chat = [{"role": "user", "content": text}]
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prompts.append(tokenizer(text)["input_ids"][:800])
    worst = assert_same_as_transformers(directory, prompts, 32, every_logit=False)
    record_property("worst relative distance of logits", worst)
    print(f"{directory.name}: logits differ by at most {worst:.1e} of their norm; {len(prompts)} answers agree")


def test_no_wanted_row_still_writes_the_cache(tiny_model: Path) -> None:
    model = load(tiny_model)
    config, kernels, tokens = model.config, model.kernels, list(range(3, 43))
    rows = []
    for chunks in ([40], [17, 23]):
        layout = KVLayout(8, 16, config.num_kv_heads, config.head_dim)
        cache, pages = kernels.cache(layout, config.num_layers, model.dtype, model.device), Pages(layout)
        done = 0
        for count in chunks:
            done += count
            wanted = [count - 1] if done == 40 else []
            batch = make_batch([(done, count)], pages, tokens=[tokens], wanted=wanted)
            logits = model.forward(batch, kernels.plan(batch), cache)
            assert logits.shape == (len(wanted), config.vocab_size)
        rows.append(logits)
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-4, atol=1e-4)


def test_a_sharded_checkpoint_is_the_same_model(tiny_model: Path, tmp_path: Path) -> None:
    sharded = build_tiny_model(tmp_path / "sharded")
    weights = load_file(sharded / "model.safetensors")
    (sharded / "model.safetensors").unlink()
    names = sorted(weights)
    files = {name: f"model-{index % 3}.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: weights[name] for name in names if files[name] == file}, sharded / file)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    one, other = (answer_greedily(load(model), [[5, 6, 7]], 4, every_logit=True)[0] for model in (tiny_model, sharded))
    assert one.tokens == other.tokens and torch.equal(one.logits[2], other.logits[2])
    (sharded / "model-1.safetensors").unlink()
    with pytest.raises(StartRefused, match=r"model-1\.safetensors, which isn't there") as refusal:
        load(sharded)
    assert refusal.value.kind == "model_missing"


def test_the_text_part_of_a_model_that_sees_is_served(tmp_path: Path) -> None:
    directory = build_tiny_model(tmp_path / "model", model_type="gemma3_text")
    answer = answer_greedily(load(directory), [[5, 6, 7]], 4, every_logit=True)[0]
    text = json.loads((directory / "config.json").read_text())
    whole = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    (directory / "config.json").write_text(json.dumps(whole))
    weights = load_file(directory / "model.safetensors")
    for root in ("language_model.model.", "model.language_model."):
        named = {name.replace("model.", root, 1): tensor for name, tensor in weights.items()}
        save_file({**named, "vision_tower.weight": torch.zeros(3)}, directory / "model.safetensors")
        assert answer_greedily(load(directory), [[5, 6, 7]], 4, every_logit=True)[0].tokens == answer.tokens


def test_low_precision_stays_close_to_fp32(tiny_model: Path) -> None:
    prompts = [[index + 3, index * 2 + 5, index * 3 + 7, 11] for index in range(60)]
    first = {
        dtype: [answer.tokens[-1] for answer in answer_greedily(load(tiny_model, dtype), prompts, 1, every_logit=False)]
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
    }
    for dtype in (torch.bfloat16, torch.float16):
        same = sum(a == b for a, b in zip(first[torch.float32], first[dtype], strict=True))
        assert same > 50, f"{dtype}: {same} of 60 first tokens agree"


def test_weights_of_another_shape_or_of_none_are_refused(tmp_path: Path) -> None:
    directory = build_tiny_model(tmp_path / "model")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"intermediate_size": 96}))
    with pytest.raises(StartRefused, match=r"gate_proj\.weight .* is \[128, 64\]; config\.json asks for \[96, 64\]"):
        load(directory)
    (directory / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3ForCausalLM"]}))
    with pytest.raises(StartRefused, match=r"lack model\.layers\.0\.self_attn\.q_norm\.weight"):
        load(directory)
