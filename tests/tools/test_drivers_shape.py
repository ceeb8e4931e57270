"""Geometry of models from what their files say, and what isn't said left open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter
from safetensors.numpy import save_file

from tests.tiny_model import build_tiny_model
from tests.tools.gguf_files import write_gguf
from tools.errors import UserError
from tools.profile.checkpoint import Checkpoint
from tools.profile.gguf_header import GgufHeader
from tools.profile.model_shape import ModelShape, read_shape

USUAL = {
    "model_type": "qwen2",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def shape_of(tmp_path: Path, **changed: Any) -> ModelShape | None:
    """Of a folder with USUAL and `changed` as its config.json, and one tensor; None takes a key out."""
    config = {key: value for key, value in (USUAL | changed).items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"lm_head.weight": np.zeros((512, 64), np.float16)}, tmp_path / "model.safetensors")
    return read_shape(tmp_path)


def known(shape: ModelShape | None) -> ModelShape:
    assert shape is not None
    return shape


def test_a_plain_model(tmp_path: Path) -> None:
    shape = known(shape_of(tmp_path))
    assert (shape.key_values, shape.value_values, shape.windows, shape.layers) == (16, 16, ((0, 4),), 4)
    assert (shape.context_tokens, shape.vocabulary, shape.dtype) == (4096, 512, "bfloat16")
    assert shape.token_bytes(2) == 64 and shape.token_bytes(2, 1) == 48
    assert shape.stored == Checkpoint(step_bytes=65536, token_parameters=0, head_parameters=32768)
    assert shape.weights_bytes == (tmp_path / "model.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("changed", "windows"),
    [
        ({"sliding_window": 512}, ((512, 4),)),
        ({"sliding_window": 512, "use_sliding_window": False}, ((0, 4),)),
        ({"sliding_window": 512, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, ((0, 1), (512, 3))),
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, ((0, 1),)),
        ({"attention_chunk_size": 256, "layer_types": ["chunked_attention"] * 4}, ((256, 4),)),
        ({"mamba_d_state": 16}, ()),
    ],
)
def test_layers_hold_what_they_say_and_no_more(tmp_path: Path, changed: dict[str, Any], windows: Any) -> None:
    assert known(shape_of(tmp_path, **changed)).windows == windows


def test_latent_attention_holds_one_state(tmp_path: Path) -> None:
    shape = known(shape_of(tmp_path, kv_lora_rank=512, qk_rope_head_dim=64))
    assert (shape.key_values, shape.value_values) == (576, 0)


def test_a_model_that_sees_too_is_known_by_its_text_part_and_not_by_its_parameters(tmp_path: Path) -> None:
    text = {key: USUAL[key] for key in USUAL if key != "torch_dtype"}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": text, "torch_dtype": "float32"}))
    shape = known(read_shape(tmp_path))
    assert (shape.layers, shape.dtype, shape.stored) == (4, "float32", None)


@pytest.mark.parametrize("experts", [{"num_local_experts": 8}, {"n_routed_experts": 64}, {"moe_intermediate_size": 64}])
def test_parameters_of_experts_are_no_bound(tmp_path: Path, experts: dict[str, int]) -> None:
    shape = known(shape_of(tmp_path, **experts))
    assert shape.stored is None and shape.key_values == 16


def test_heads_are_guessed_only_where_they_are_all_alike(tmp_path: Path) -> None:
    assert shape_of(tmp_path, num_key_value_heads=None) is None
    assert known(shape_of(tmp_path, num_key_value_heads=None, model_type="llama")).key_values == 64
    assert shape_of(tmp_path, num_hidden_layers=None) is None
    assert known(shape_of(tmp_path, quantization_config={"quant_method": "awq"})).is_quantized


def test_a_folder_without_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: expected the model's configuration"):
        read_shape(tmp_path)


def test_a_gguf_has_the_shape_of_the_folder_it_was_made_from(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "tiny")
    write_gguf(folder, tmp_path / "tiny.gguf")
    ours, theirs = known(read_shape(folder)), known(read_shape(tmp_path / "tiny.gguf"))
    for name in ("vocabulary", "hidden", "feed_forward", "key_values", "value_values", "windows", "context_tokens"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.stored == theirs.stored
    quantised = tmp_path / "q8.gguf"
    write_gguf(folder, quantised, "Q8_0")
    small = known(read_shape(quantised))
    assert small.is_quantized and not theirs.is_quantized
    assert small.stored is not None and theirs.stored is not None
    assert small.stored.step_bytes < 0.3 * theirs.stored.step_bytes


def test_the_header_says_what_the_gguf_package_reads(tmp_path: Path) -> None:
    write_gguf(build_tiny_model(tmp_path / "tiny"), tmp_path / "tiny.gguf", "Q8_0")
    header, reader = GgufHeader.read(tmp_path / "tiny.gguf"), GGUFReader(tmp_path / "tiny.gguf")
    assert len(header.metadata) > 10
    for key, value in header.metadata.items():
        field = reader.get_field(key)
        assert field is not None
        found = field.contents()
        assert value == (tuple(found) if isinstance(found, list) else found), key
    assert [(t.name, t.values, t.type_id) for t in header.tensors] == [
        (t.name, int(np.prod(t.shape)), t.tensor_type.value) for t in reader.tensors
    ]


def written(path: Path, **numbers: int | list[int]) -> Path:
    """A file with an embedding alone, and with `numbers` in its metadata (dots written as two underscores)."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(4)
    writer.add_embedding_length(64)
    writer.add_head_count(8)
    for key, value in numbers.items():
        add = writer.add_array if isinstance(value, list) else writer.add_uint32
        add(key.replace("__", "."), value)
    writer.add_tensor("token_embd.weight", np.zeros((32, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_layers_that_differ_count_where_they_attend(tmp_path: Path) -> None:
    shape = known(read_shape(written(tmp_path / "m.gguf", llama__attention__head_count_kv=[0, 2, 0, 2])))
    assert (shape.layers, shape.key_values) == (2, 16)


def test_experts_and_parts_of_a_file_are_no_bound(tmp_path: Path) -> None:
    experts = known(read_shape(written(tmp_path / "m.gguf", llama__expert_count=8)))
    assert experts.stored is None and experts.layers == 4
    first = written(tmp_path / "m-00001-of-00002.gguf", split__count=2)
    with pytest.raises(UserError, match="expected the 2 parts"):
        read_shape(first)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(b"x" * 1000)
    both = known(read_shape(first))
    assert both.stored is None and both.weights_bytes == first.stat().st_size + 1000


@pytest.mark.parametrize("content", [b"", b"not a GGUF file at all", b"GGUF\x03\0\0\0" + b"\xff" * 16])
def test_a_file_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(UserError, match="expected a GGUF file"):
        read_shape(tmp_path / "m.gguf")


def test_a_file_that_ends_in_its_header_is_told(tmp_path: Path) -> None:
    whole = written(tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[:100])
    with pytest.raises(UserError, match="can't be read"):
        read_shape(tmp_path / "m.gguf")
