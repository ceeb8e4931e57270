"""GGUF files become what they were made from: the same weights, the same config, the same tokens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from engine.model_config import ModelConfig
from tests.engine.oracle import assert_same_as_transformers
from tests.tiny_model import build_tiny_model
from tests.tools.gguf_files import write_gguf
from tools.errors import UserError
from tools.models import pull
from tools.models.gguf import convert
from tools.models.gguf_names import GgufError, llama3

WIDE = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64}
"""K-quants pack 256 values of a row together."""

MOST_OFF = {"F32": 0.0, "F16": 1e-3, "BF16": 8e-3, "Q8_0": 0.01, "Q5_0": 0.08, "Q4_0": 0.15, "Q4_1": 0.12}
"""Mean distance from the values that went in, as a share of their own mean size."""


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"tie_word_embeddings": False, "num_key_value_heads": 1},
        {"attention_bias": True, "mlp_bias": True},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
        {"model_type": "qwen2"},
        {"model_type": "qwen3", "head_dim": 32},
        {"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 32, "query_pre_attn_scalar": 32},
    ],
    ids=lambda overrides: ", ".join(f"{key} {value}" for key, value in overrides.items())[:50] or "llama",
)
def test_a_file_becomes_the_model_it_was_made_from(tmp_path: Path, overrides: dict[str, Any]) -> None:
    if overrides.get("model_type") == "gemma3_text":
        overrides = overrides | {"layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
    source = build_tiny_model(tmp_path / "source", **overrides)
    restored = write_gguf(source, tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "out")
    converted, original = (ModelConfig.load(folder) for folder in (tmp_path / "out", source))
    assert dataclasses.replace(converted, eos_token_ids=original.eos_token_ids) == original
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert weights.keys() == restored.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, torch.from_numpy(restored[name]), rtol=0, atol=1e-6)
    assert_same_as_transformers(tmp_path / "out", [[5, 6, 7], list(range(60))], 4, every_logit=True)


@pytest.mark.parametrize("kind", [*MOST_OFF, "Q4_K", "Q5_K", "Q6_K"])
def test_every_format_is_restored(tmp_path: Path, kind: str) -> None:
    source = build_tiny_model(tmp_path / "source", **WIDE)
    restored = write_gguf(source, tmp_path / "tiny.gguf", kind)
    dtype = "float32" if kind != "F16" else "auto"
    convert(tmp_path / "tiny.gguf", tmp_path / "out", dtype)
    weights, original = (load_file(folder / "model.safetensors") for folder in (tmp_path / "out", source))
    for name, tensor in weights.items():
        assert torch.equal(tensor.float(), torch.from_numpy(restored[name]).to(tensor.dtype).float()), name
        if kind in MOST_OFF:
            off = (tensor.float() - original[name]).abs().mean() / original[name].abs().mean()
            assert off <= (MOST_OFF[kind] or 0.0), name
    expected = "float16" if kind == "F16" else "float32"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == expected


def test_the_tokenizer_says_what_it_said(tmp_path: Path) -> None:
    source = build_tiny_model(tmp_path / "source")
    write_gguf(source, tmp_path / "tiny.gguf", "Q8_0", tokenizer__ggml__eot_token_id=1)
    convert(tmp_path / "tiny.gguf", tmp_path / "out")
    before, after = (AutoTokenizer.from_pretrained(folder) for folder in (source, tmp_path / "out"))
    for text in ("The quick brown fox", "<|im_start|>user\nWhat is it?<|im_end|>\n", "Zwölf 🙂"):
        assert after(text)["input_ids"] == before(text)["input_ids"]
        assert after.decode(after(text)["input_ids"]) == text
    config = ModelConfig.load(tmp_path / "out")
    assert config.dtype == "bfloat16"
    assert config.eos_token_ids == {0, 1, 2}  # <|endoftext|> and <|im_end|> by name, the end of a turn by its key


def test_a_second_copy_of_the_embedding_is_both_and_another_head_is_kept(tmp_path: Path) -> None:
    source = build_tiny_model(tmp_path / "source")
    restored = write_gguf(source, tmp_path / "twice.gguf", second_head=True)
    convert(tmp_path / "twice.gguf", tmp_path / "twice")
    weights = load_file(tmp_path / "twice" / "model.safetensors")
    assert "lm_head.weight" not in weights and ModelConfig.load(tmp_path / "twice").tie_word_embeddings
    finer = torch.from_numpy(restored["model.embed_tokens.weight"] * np.float32(1.001))
    assert torch.equal(weights["model.embed_tokens.weight"], finer)


def test_many_bytes_are_written_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = build_tiny_model(tmp_path / "source")
    write_gguf(source, tmp_path / "tiny.gguf")
    monkeypatch.setattr("tools.models.gguf.SHARD_BYTES", 100_000)
    convert(tmp_path / "tiny.gguf", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 2
    assert_same_as_transformers(tmp_path / "out", [[5, 6, 7]], 4, every_logit=True)


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"split__count": 2}, "one part of several"),
        ({"general__architecture": "mamba"}, "architecture is mamba; known ones are llama"),
        ({"llama__rope__scaling__type": "longrope"}, "stretched by longrope"),
        ({"llama__rope__dimension_count": 8}, "only a part of each head"),
    ],
)
def test_a_file_that_cannot_be_converted_is_refused_by_name(
    tmp_path: Path, metadata: dict[str, Any], sentence: str
) -> None:
    write_gguf(build_tiny_model(tmp_path / "source"), tmp_path / "tiny.gguf", **metadata)
    with pytest.raises(GgufError, match=sentence):
        convert(tmp_path / "tiny.gguf", tmp_path / "out")


def test_the_stretch_of_llama_3_is_known_by_its_factors() -> None:
    original, factor, theta = 8192, 32.0, 500000.0
    wavelengths = 2 * np.pi * theta ** (np.arange(32) / 32)
    factors = []
    for wavelength in wavelengths:  # as llama.cpp's conversion computes them
        if wavelength < original / 4:
            factors.append(1.0)
        elif wavelength > original / 1:
            factors.append(factor)
        else:
            smooth = (original / wavelength - 1) / (4 - 1)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    rope = llama3(np.array(factors, np.float32), theta)
    assert (rope["factor"], rope["rope_theta"], rope["rope_type"]) == (32.0, 500000.0, "llama3")
    with pytest.raises(GgufError, match=r"isn't Llama 3\.1's stretch"):
        llama3(np.linspace(1, 8, 32, dtype=np.float32), theta)


def test_a_file_on_disk_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE", str(tmp_path / "cache"))
    source = build_tiny_model(tmp_path / "source")
    write_gguf(source, tmp_path / "tiny.Q8_0.gguf", "Q8_0")
    steps: list[str] = []
    folder = pull(str(tmp_path / "tiny.Q8_0.gguf"), progress=steps.append)
    assert folder.parent == tmp_path / "cache" / "models" and folder.name.startswith("tiny.Q8_0-")
    assert ModelConfig.load(folder).hidden_size == 64 and len(steps) == 1
    assert pull(str(tmp_path / "tiny.Q8_0.gguf"), progress=steps.append) == folder and len(steps) == 1
    write_gguf(build_tiny_model(tmp_path / "other", seed=1), tmp_path / "tiny.Q8_0.gguf", "Q8_0")
    assert pull(str(tmp_path / "tiny.Q8_0.gguf"), progress=steps.append) != folder and len(steps) == 2
    write_gguf(source, tmp_path / "part.gguf", split__count=3)
    with pytest.raises(UserError, match=r"part\.gguf: the conversion(.|\n)*gguf-split --merge"):
        pull(str(tmp_path / "part.gguf"))
    with pytest.raises(UserError, match="no such file"):
        pull(str(tmp_path / "missing.gguf"))
    with pytest.raises(UserError, match=r"it holds part\.gguf: give the path"):
        pull(str(tmp_path))
