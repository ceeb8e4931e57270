"""Checkpoint: what the headers of a model's files say about its size; no weight is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tools.errors import UserError

__all__ = ["Checkpoint"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Parameters and bytes as they are stored."""

    step_bytes: int
    "Bytes of all but an input embedding that isn't also the output head."
    token_parameters: int
    "Parameters of all but embedding and output head."
    head_parameters: int
    "Of the output head; of the embedding where that is it."

    @classmethod
    def read(cls, model_dir: Path) -> Checkpoint:
        """From the headers of the *.safetensors files in `model_dir`.

        Raises:
            UserError: no such files, or a header that can't be read.
        """
        tensors: dict[str, dict[str, Any]] = {}
        for file in sorted(model_dir.glob("*.safetensors")):
            tensors |= _header(file)
        if not tensors:
            raise UserError(f"{model_dir}: expected *.safetensors files, found none")
        embedding = {name for name in tensors if name.endswith(("embed_tokens.weight", "wte.weight"))}
        head = {name for name in tensors if name.endswith("lm_head.weight")}
        sizes = {name: end - start for name, (start, end) in ((n, t["data_offsets"]) for n, t in tensors.items())}
        counts = {name: prod(tensor["shape"]) for name, tensor in tensors.items()}
        return cls(
            step_bytes=sum(size for name, size in sizes.items() if not (head and name in embedding)),
            token_parameters=sum(count for name, count in counts.items() if name not in embedding | head),
            head_parameters=sum(counts[name] for name in head or embedding),
        )


def _header(file: Path) -> dict[str, dict[str, Any]]:
    """Tensors of a safetensors file: name -> dtype, shape, data_offsets. The first 8 bytes hold the header's length."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header: dict[str, dict[str, Any]] = json.loads(stream.read(length))
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        raise UserError(f"{file}: expected a safetensors file, found one whose header can't be read: {error}") from None
    header.pop("__metadata__", None)
    return header
