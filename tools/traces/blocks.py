"""BlockTable: prompts as chains of numbered blocks. Equal beginnings have equal numbers; nothing leads back to text."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Sequence

__all__ = ["BLOCK_TOKENS", "BlockTable"]

BLOCK_TOKENS = 16
"""vLLM's default page, and the finest grain at which its prefix cache (or SGLang's with that page size) can share."""


class BlockTable:
    """Numbers blocks in order of first appearance.

    A block is known by its parent's number and a keyed blake2b of its content. The key is random and lives as long as
    the table: once a log is read both are gone, and the numbers that stay say who shares with whom and nothing else.
    64 bits of hash: among 10 million blocks under one parent two collide with a chance of 3e-6 (birthday bound).
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._numbers: dict[tuple[int, bytes | int | str], int] = {}

    def tokens(self, ids: Sequence[int], *, root: str = "") -> tuple[int, ...]:
        """Numbers of the whole blocks of 16 token ids; a rest is no block. Chains of different roots share nothing.

        Raises:
            struct.error: an id that is no unsigned 32-bit number.
        """
        parts = range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS)
        return self._chain((struct.pack(f"<{BLOCK_TOKENS}I", *ids[at : at + BLOCK_TOKENS]) for at in parts), root)

    def pieces(self, pieces: Sequence[str], per_block: int, *, root: str = "") -> tuple[int, ...]:
        """Numbers of the whole blocks of `per_block` pieces of text."""
        parts = range(0, len(pieces) - per_block + 1, per_block)
        return self._chain(("\0".join(pieces[at : at + per_block]).encode() for at in parts), root)

    def known(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Numbers of blocks that the log hashed itself. A block is only equal to another below equal parents."""
        numbers, parent, path = self._numbers, -1, []
        for block in ids:
            parent = numbers.setdefault((parent, block), len(numbers))
            path.append(parent)
        return tuple(path)

    def _chain(self, contents: Iterable[bytes], root: str) -> tuple[int, ...]:
        numbers, key, path = self._numbers, self._key, []
        parent = numbers.setdefault((-1, root), len(numbers))
        for content in contents:
            digest = hashlib.blake2b(content, digest_size=8, key=key).digest()
            parent = numbers.setdefault((parent, digest), len(numbers))
            path.append(parent)
        return tuple(path)
