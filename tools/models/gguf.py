"""GGUF to Hugging Face directory, in a process of its own: `python -m tools.models.gguf FILE FOLDER DTYPE`."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["convert"]


def convert(gguf: Path, folder: Path, dtype: str) -> None:
    """Write the dequantised model and its tokenizer to `folder`.

    transformers 5 refuses to save what it loaded from GGUF unless the traces of quantization are removed, and some
    files hold a tied embedding twice, quantized differently: the finer copy, `output.weight`, is kept and tied again.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=getattr(torch, dtype),
        quantization_config=GgufConfig(dequantize=True),
    )
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding.weight.data_ptr() != head.weight.data_ptr() and _nearly_equal(embedding.weight, head.weight):
        with torch.no_grad():
            embedding.weight.copy_(head.weight)
        head.weight = embedding.weight
        model.config.tie_word_embeddings = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _nearly_equal(one: object, other: object) -> bool:
    """Two quantizations of one matrix differ by little against its own size."""
    import torch

    assert isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    difference = (one.float() - other.float()).abs().mean()
    return bool(difference < 0.1 * one.float().abs().mean())


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
