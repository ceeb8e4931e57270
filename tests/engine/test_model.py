"""The model is transformers' model: same logits, and token for token the same greedy answers."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine import Engine, EngineKnobs, ModelConfig, SamplingParams, StartRefused
from tests.tiny_model import build_tiny_model

WORDS = Path(__file__).read_text().split()
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def prompts_of_mixed_length(model: Path, count: int, longest: int) -> list[list[int]]:
    """Real text, chats among it; every other one continues the same long prefix."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    draw = random.Random(0)
    shared = " ".join(draw.choices(WORDS, k=60))
    prompts = []
    for index in range(count):
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 40)))
        if index % 2:
            text = f"{shared} {text}"
        if index % 3 == 0:
            chat = [{"role": "user", "content": text}]
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prompts.append(tokenizer(text)["input_ids"][:longest])
    return prompts


def greedy_by_transformers(model: Path, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
    oracle = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    answers = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = oracle.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False)
        answers.append(out[0, len(prompt) :].tolist())
    return answers


def assert_same_answers(model: Path, prompts: list[list[int]], max_tokens: int, **knobs: Any) -> None:
    expected = greedy_by_transformers(model, prompts, max_tokens)
    engine = Engine(model, EngineKnobs(dtype="fp32", **knobs))
    params = SamplingParams(max_tokens=max_tokens, temperature=0)
    half = len(prompts) // 2
    # The second half arrives when the shared prefix is cached.
    answers = engine.generate(prompts[:half], params) + engine.generate(prompts[half:], params)
    for index, (answer, tokens) in enumerate(zip(answers, expected, strict=True)):
        assert list(answer.token_ids) == tokens, f"prompt {index} of {len(prompts[index])} tokens"
    assert sum(answer.num_cached_tokens for answer in answers) > 0
    assert any(len(prompt) > engine.knobs.max_num_batched_tokens for prompt in prompts)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"model_type": "qwen2"},
        {"tie_word_embeddings": False, "num_key_value_heads": 1},
        {"rope_parameters": LLAMA3_ROPE, "num_key_value_heads": 4},
        {"attention_bias": True, "num_attention_heads": 8, "head_dim": 24},
    ],
    ids=["llama", "qwen2", "untied, one key head", "llama3 rope, a key head each", "biases, wide heads"],
)
def test_greedy_answers_equal_those_of_transformers(tmp_path: Path, overrides: dict[str, Any]) -> None:
    model = build_tiny_model(tmp_path / "model", **overrides)
    prompts = prompts_of_mixed_length(model, 24, longest=400)
    assert_same_answers(model, prompts, 32, max_num_batched_tokens=64, max_num_seqs=8, num_threads=1)


@pytest.mark.skipif("AUTOTUNE_TEST_MODEL" not in os.environ, reason="AUTOTUNE_TEST_MODEL names no model directory")
def test_greedy_answers_of_a_real_model_equal_those_of_transformers() -> None:
    model = Path(os.environ["AUTOTUNE_TEST_MODEL"])
    prompts = prompts_of_mixed_length(model, 24, longest=800)
    assert_same_answers(model, prompts, 48, max_num_batched_tokens=128, max_num_seqs=16)


def test_a_sharded_checkpoint_is_the_same_model(tiny_model: Path, tmp_path: Path) -> None:
    sharded = build_tiny_model(tmp_path / "sharded")
    weights = load_file(sharded / "model.safetensors")
    (sharded / "model.safetensors").unlink()
    names = sorted(weights)
    files = {name: f"model-{index % 3}.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: weights[name] for name in names if files[name] == file}, sharded / file)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    params = SamplingParams(max_tokens=8, temperature=0)
    knobs = EngineKnobs(dtype="fp32", num_threads=1)
    answers = [Engine(model, knobs).generate(["The quick"], params) for model in (tiny_model, sharded)]
    assert answers[0] == answers[1]
    (sharded / "model-1.safetensors").unlink()
    with pytest.raises(StartRefused, match=r"model-1\.safetensors, which isn't there") as refusal:
        Engine(sharded, knobs)
    assert refusal.value.kind == "model_missing"


def test_low_precision_stays_close_to_fp32(tiny_model: Path) -> None:
    params = SamplingParams(max_tokens=1, temperature=0)
    prompts = [[index + 3, index * 2 + 5, index * 3 + 7, 11] for index in range(60)]
    answers = {}
    for dtype in ("fp32", "bf16", "fp16"):
        engine = Engine(tiny_model, EngineKnobs(dtype=dtype, num_threads=1))
        answers[dtype] = [answer.token_ids for answer in engine.generate(prompts, params)]
    for dtype in ("bf16", "fp16"):
        same = sum(a == b for a, b in zip(answers["fp32"], answers[dtype], strict=True))
        assert same > 50, f"{dtype}: {same} of 60 first tokens agree"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architecture MambaForCausalLM"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope type yarn"),
        ({"use_sliding_window": True}, "sliding-window"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
    ],
)
def test_a_model_that_cannot_be_run_right_is_refused_by_name(
    tiny_model: Path, change: dict[str, Any], sentence: str
) -> None:
    config = json.loads((tiny_model / "config.json").read_text()) | change
    with pytest.raises(StartRefused, match=sentence) as refusal:
        ModelConfig.from_json(config)
    assert refusal.value.kind == "bad_config"


def test_old_and_new_spellings_of_the_rotary_settings_mean_the_same(tiny_model: Path) -> None:
    config = json.loads((tiny_model / "config.json").read_text())
    new = ModelConfig.from_json(config | {"rope_parameters": LLAMA3_ROPE})
    del config["rope_parameters"]
    scaling = {name: value for name, value in LLAMA3_ROPE.items() if name != "rope_theta"}
    assert ModelConfig.from_json(config | {"rope_theta": 500000.0, "rope_scaling": scaling}) == new


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"intermediate_size": 96}))
    with pytest.raises(StartRefused, match=r"gate_proj\.weight .* is \[128, 64\]; config\.json asks for \[96, 64\]"):
        Engine(model, EngineKnobs(num_threads=1))
