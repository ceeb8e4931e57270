"""GGUF to Hugging Face directory, in a process of its own: `python -m tools.models.gguf FILE FOLDER DTYPE`.

Tensors are read with the gguf package, one at a time, and written under the names that transformers gives them; only
the tokenizer goes through transformers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.models.gguf_names import GgufError, config_of, generation_of, name_of, value_of

if TYPE_CHECKING:
    import torch

__all__ = ["convert"]

SHARD_BYTES = 4 << 30

EMBEDDINGS = ("token_embd.weight", "output.weight")


def convert(gguf: Path, folder: Path, dtype: str = "auto") -> None:
    """Write the dequantised model and its tokenizer to `folder`.

    Args:
        dtype: of the written weights, in torch's words; auto: the file's own where its matrices aren't quantised, else
            bfloat16.

    Raises:
        GgufError: a model, or a part of one, that isn't known.
    """
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    if reader.get_field("split.count") and int(value_of(reader, "split.count")) > 1:
        raise GgufError("the file is one part of several; join them with llama.cpp's gguf-split --merge first")
    types = {tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) > 1}
    if dtype == "auto":
        dtype = {"F32": "float32", "F16": "float16"}.get(types.pop(), "bfloat16") if len(types) == 1 else "bfloat16"
    folder.mkdir(parents=True)
    is_tied, source = embedding_of(reader)
    config = config_of(reader, dtype, is_tied)
    write_weights(tensors(reader, config, is_tied, source), folder, dtype)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation_of(reader), indent=2) + "\n")
    write_tokenizer(gguf, folder)


def embedding_of(reader: Any) -> tuple[bool, str]:
    """Whether the output head is the embedding, and the tensor to read it from.

    Some files hold a tied embedding twice, quantised differently: then the finer copy, `output.weight`, is both. Two
    quantizations of one matrix differ by little against its own size.
    """
    import numpy as np

    by_name = {tensor.name: tensor for tensor in reader.tensors}
    if "output.weight" not in by_name:
        return True, "token_embd.weight"
    one, other = by_name["token_embd.weight"], by_name["output.weight"]
    if one.data.shape[0] != other.data.shape[0]:
        return False, "token_embd.weight"
    rows = np.linspace(0, one.data.shape[0] - 1, min(one.data.shape[0], 4096)).astype(int)
    first, second = (restored(tensor, tensor.data[rows]) for tensor in (one, other))
    is_tied = bool(np.abs(first - second).mean() < 0.1 * np.abs(first).mean())
    return is_tied, "output.weight" if is_tied else "token_embd.weight"


def restored(tensor: Any, data: Any) -> Any:
    """`data`, all rows of `tensor` or some, as fp32."""
    from gguf.quants import dequantize

    try:
        return dequantize(data, tensor.tensor_type)
    except NotImplementedError:
        raise GgufError(f"{tensor.name} is {tensor.tensor_type.name}, which can't be restored") from None


def tensors(reader: Any, config: dict[str, Any], is_tied: bool, source: str) -> Iterator[tuple[str, Any]]:
    """(name, fp32 array) of each tensor that the written model has."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight" or (is_tied and tensor.name in EMBEDDINGS and tensor.name != source):
            continue
        values = restored(tensor, tensor.data)
        name = "model.embed_tokens.weight" if tensor.name == source else name_of(tensor.name, config["model_type"])
        if config["model_type"] == "llama" and ("q_proj" in name or "k_proj" in name):
            # llama.cpp rotates neighbouring dimensions, transformers the halves of a head.
            count = heads if "q_proj" in name else kv_heads
            pairs = values.reshape(count, values.shape[0] // count // 2, 2, *values.shape[1:])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        if config["model_type"] == "gemma3_text" and name.endswith("norm.weight"):
            values = values - 1  # llama.cpp stores what transformers adds one to
        yield name, values


def write_weights(named: Iterator[tuple[str, Any]], folder: Path, dtype: str) -> None:
    """One safetensors file, or several with an index where there is more than fits into one."""
    import torch
    from safetensors.torch import save_file

    shards: list[dict[str, torch.Tensor]] = []
    files: dict[str, str] = {}
    shard: dict[str, torch.Tensor] = {}
    total = size = 0

    def flush() -> None:
        file = f"model-{len(shards) + 1:05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        files.update(dict.fromkeys(shard, file))
        shards.append({})

    for name, values in named:
        tensor = torch.tensor(values, dtype=getattr(torch, dtype))
        if size + tensor.nbytes > SHARD_BYTES and shard:
            flush()
            shard, size = {}, 0
        shard[name] = tensor
        size += tensor.nbytes
        total += tensor.nbytes
    flush()
    if len(shards) == 1:
        (folder / "model-00001.safetensors").rename(folder / "model.safetensors")
        return
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def write_tokenizer(gguf: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except GgufError as refusal:
        sys.exit(str(refusal))
