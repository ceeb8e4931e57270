"""The shape of a GGUF file, from its header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from tools.errors import UserError
from tools.profile.checkpoint import Checkpoint
from tools.profile.gguf_header import GgufHeader, Tensor
from tools.profile.model_shape import ModelShape, whole_number

__all__ = ["gguf_shape"]

_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"


def gguf_shape(file: Path) -> ModelShape | None:
    """The shape of the model in `file`; None where its header doesn't tell enough, or names a format that isn't known.

    Raises:
        UserError: it can't be read.
    """
    header = GgufHeader.read(file)
    kind = f"{header.metadata.get('general.architecture')}."
    own = {key.removeprefix(kind): value for key, value in header.metadata.items() if key.startswith(kind)}
    layers, hidden = whole_number(own, "block_count"), whole_number(own, "embedding_length")
    heads = whole_number(own, "attention.head_count")
    # Where layers differ they are listed, with 0 for one that has no attention.
    kv_heads = [int(each) for each in _each(own.get("attention.head_count_kv", heads), layers or 0) if each]
    by_name = {tensor.name: tensor for tensor in header.tensors}
    if not (layers and hidden and heads and kv_heads and _EMBEDDING in by_name):
        return None
    try:
        sizes = {name: _bytes(tensor) for name, tensor in by_name.items()}
    except ValueError:
        return None
    latent = whole_number(own, "attention.kv_lora_rank")
    widths = [whole_number(own, f"attention.{which}_length") or hidden // heads for which in ("key", "value")]
    keys, values = (min(kv_heads) * width for width in widths)
    if latent is not None:
        keys, values = latent + (whole_number(own, "rope.dimension_count") or 0), 0
    parts, is_recurrent = _parts(file, header), any(key.startswith("ssm.") for key in own)
    listed = isinstance(own.get("attention.head_count_kv"), tuple)
    is_partial = len(parts) > 1 or is_recurrent or bool(whole_number(own, "expert_count"))
    window = whole_number(own, "attention.sliding_window") or 0
    return ModelShape(
        weights_bytes=sum(part.stat().st_size for part in parts) if len(parts) > 1 else sum(sizes.values()),
        vocabulary=by_name[_EMBEDDING].values // hidden,
        hidden=hidden,
        feed_forward=min((int(each) for each in _each(own.get("feed_forward_length", 0), 1)), default=0),
        key_values=keys,
        value_values=values,
        windows=() if is_recurrent and not listed else ((window, len(kv_heads)),),
        context_tokens=whole_number(own, "context_length") or 0,
        stored=None if is_partial else _stored(by_name, sizes),
        is_quantized=any(8 * sizes[name] < 16 * each.values for name, each in by_name.items()),
    )


def _stored(tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Checkpoint:
    head = _HEAD if _HEAD in tensors else _EMBEDDING
    outside = {_EMBEDDING, _HEAD}
    return Checkpoint(
        step_bytes=sum(size for name, size in sizes.items() if name == head or name not in outside),
        token_parameters=sum(tensor.values for name, tensor in tensors.items() if name not in outside),
        head_parameters=tensors[head].values,
    )


def _bytes(tensor: Tensor) -> int:
    """Raises ValueError for a format that isn't known."""
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.type_id)]
    return int(tensor.values * size // values)


def _parts(file: Path, header: GgufHeader) -> tuple[Path, ...]:
    """Every file of a model that was split; `file` alone where it wasn't.

    Raises:
        UserError: parts are missing.
    """
    count = whole_number(header.metadata, "split.count") or 1
    if count < 2:
        return (file,)
    stem = file.stem.rpartition("-of-")[0].rpartition("-")[0]
    parts = tuple(sorted(file.parent.glob(f"{stem}-*-of-*.gguf")))
    if len(parts) != count:
        raise UserError(f"{file}: expected the {count} parts of a split model beside it, found {len(parts)}")
    return parts


def _each(value: Any, count: int) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,) * count
