"""GGUF files made from Hugging Face directories, the way llama.cpp's own conversion does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from numpy.typing import NDArray
from safetensors.numpy import load_file

__all__ = ["ARCHITECTURES", "random_blocks", "write_gguf"]

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3_text": "gemma3"}

SCALES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
"""Where in a block the fp16 numbers stand that everything is multiplied with."""


def random_blocks(shape: tuple[int, ...], kind: GGMLQuantizationType, draw: np.random.Generator) -> NDArray[np.uint8]:
    """Bytes of a random matrix of `shape` in a format that the gguf package reads but doesn't write."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = draw.integers(0, 256, (shape[0] * shape[1] // values, size), dtype=np.uint8)
    for offset in SCALES[kind.name]:
        scales = draw.uniform(0.0005, 0.001, len(blocks)).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(shape[0], -1)


def write_gguf(
    source: Path, path: Path, kind: str = "F32", *, second_head: bool = False, **metadata: Any
) -> dict[str, NDArray[np.float32]]:
    """The model in `source` as a GGUF file, its matrices in the format `kind`.

    Args:
        second_head: a tied embedding stands in the file twice, the second time slightly different.
        metadata: further keys (dots written as two underscores) and their values.

    Returns:
        What its tensors are under transformers' names once they are restored.
    """
    config = json.loads((source / "config.json").read_text())
    name = ARCHITECTURES[config["model_type"]]
    draw = np.random.default_rng(0)
    writer = GGUFWriter(path, name)
    write_config(writer, config)
    write_vocabulary(writer, source, config)
    for key, value in metadata.items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(key.replace("__", "."), value)
    wanted = GGMLQuantizationType[kind]
    architecture = next(known for known, known_name in gguf.MODEL_ARCH_NAMES.items() if known_name == name)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    restored = {}
    for ours, tensor in load_file(source / "model.safetensors").items():
        theirs = names.get_name(ours, try_suffixes=(".weight", ".bias"))
        assert theirs is not None, ours
        is_matrix = tensor.ndim > 1
        stored = GGMLQuantizationType.F32 if not is_matrix else wanted
        if is_matrix and kind in SCALES:
            data = random_blocks(tensor.shape, stored, draw)
        else:
            data = gguf.quantize(tensor, stored)
        restored[ours] = np.asarray(gguf.dequantize(data, stored))
        if name == "llama" and ("q_proj" in ours or "k_proj" in ours):
            heads = config["num_attention_heads" if "q_proj" in ours else "num_key_value_heads"]
            halves = data.reshape(heads, 2, data.shape[0] // heads // 2, *data.shape[1:])
            data = halves.swapaxes(1, 2).reshape(data.shape)
        if name == "gemma3" and ours.endswith("norm.weight"):
            data = data + np.float32(1)
        writer.add_tensor(theirs, np.ascontiguousarray(data), raw_dtype=stored)
        if second_head and "embed" in ours:
            writer.add_tensor("output.weight", tensor * np.float32(1.001))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return restored


def write_config(writer: GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    if config["model_type"] == "gemma3_text":
        writer.add_sliding_window(config["sliding_window"])
        rope = rope["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] != "default":
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])


def write_vocabulary(writer: GGUFWriter, source: Path, config: dict[str, Any]) -> None:
    """The tokenizer of `source`, padded to the model's vocabulary; for Gemma, which has another kind, its tokens."""
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    by_id = {index: token for token, index in tokenizer["model"]["vocab"].items()}
    tokens = [by_id.get(index, f"[unused{index}]") for index in range(config["vocab_size"])]
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL] * 3 + [TokenType.NORMAL] * (len(tokens) - 3))
    if config["model_type"] == "gemma3_text":
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([-float(index) for index in range(len(tokens))])
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
