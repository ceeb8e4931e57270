"""Digests: the content address of a model, and of the effective config."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.knobs import Value

__all__ = ["config_hash", "digest_of_file", "model_digest"]

WHOLE_BYTES = 1 << 30
WINDOW_BYTES = 1 << 20
NUM_WINDOWS = 256


def config_hash(config: Mapping[str, Value]) -> str:
    """sha256 of the canonical JSON of `config`: sorted keys, no white space, UTF-8. 64 hex digits."""
    text = json.dumps(dict(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def model_digest(directory: Path) -> str:
    """sha256 over all that decides what the model says: config, generation config, tokenizer, chat template, weights.

    A file of up to 1 GiB counts whole (about 2 GB/s). A larger one counts by its size and 256 windows of 1 MiB, the
    first (the header, with every tensor's name, shape and place) and the last among them: a digest that takes minutes
    would be skipped.
    """
    names = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    paths = [directory / name for name in names if (directory / name).is_file()]
    total = hashlib.sha256()
    for path in [*paths, *sorted(directory.glob("*.safetensors"))]:
        total.update(f"{path.name}\0{path.stat().st_size}\0{digest_of_file(path)}\n".encode())
    return total.hexdigest()


def digest_of_file(path: Path) -> str:
    """sha256 of what counts of a file, by its size: as `model_digest` says."""
    content = hashlib.sha256()
    for piece in pieces(path):
        content.update(piece)
    return content.hexdigest()


def pieces(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE_BYTES:
            while piece := file.read(WINDOW_BYTES):
                yield piece
            return
        for index in range(NUM_WINDOWS):
            file.seek((size - WINDOW_BYTES) * index // (NUM_WINDOWS - 1))
            yield file.read(WINDOW_BYTES)
