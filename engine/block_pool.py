"""BlockPool: who owns which block of the KV cache, and which computed prefixes can be found again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence as ReadOnlyList

__all__ = ["BlockPool", "PoolError", "chain_hash"]


class PoolError(AssertionError):
    """The books of the pool don't balance: a bug, never a user's mistake."""


def chain_hash(parent: bytes, tokens: bytes) -> bytes:
    """sha256 that names a block by its tokens (int32) and all that precede them (`parent`, empty for the first).

    32 bytes of sha256 need no comparison of tokens on a hit.
    """
    return hashlib.sha256(parent + tokens).digest()


class BlockPool:
    """Blocks 0 to num_blocks - 1, each free, cached (free, but its content can still be found) or used.

    The free list is the eviction order: `allocate` takes from its front, so what was freed longest ago goes first.
    All operations are O(1) per block.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._users = [0] * num_blocks
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks that can be allocated, cached ones included."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that nobody uses but whose content can be found."""
        return sum(1 for block in self._hash_of if not self._users[block])

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1; cached blocks count as free."""
        return 1 - len(self._free) / self.num_blocks

    def allocate(self, count: int) -> list[int]:
        """`count` blocks for one user, their old content forgotten. The caller has checked `num_free`."""
        if count > len(self._free):
            raise PoolError(f"{count} blocks asked of {len(self._free)} free ones")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._users[block] = 1
        return blocks

    def find(self, hashes: ReadOnlyList[bytes]) -> list[int]:
        """Blocks of the longest known prefix of `hashes`; they aren't taken yet."""
        found = []
        for name in hashes:
            block = self._block_of.get(name)
            if block is None:
                break
            found.append(block)
        return found

    def num_free_without(self, blocks: ReadOnlyList[int]) -> int:
        """Blocks that could still be allocated once `blocks` are shared."""
        return len(self._free) - sum(1 for block in blocks if not self._users[block])

    def share(self, blocks: ReadOnlyList[int]) -> None:
        """One more user for each of `blocks`."""
        for block in blocks:
            if not self._users[block]:
                del self._free[block]
            self._users[block] += 1

    def register(self, block: int, name: bytes) -> None:
        """The used `block` now holds what `name` stands for. Content that another block already has stays anonymous."""
        if name not in self._block_of and block not in self._hash_of:
            self._block_of[name] = block
            self._hash_of[block] = name

    def release(self, blocks: ReadOnlyList[int]) -> None:
        """One user fewer for each of `blocks`, given in the order of the sequence.

        Tails are freed first, so that a prefix outlives what followed it. A block without a name can't be found
        again: it goes to the front, to be taken before anything worth keeping.
        """
        for block in reversed(blocks):
            if not self._users[block]:
                raise PoolError(f"block {block} is freed twice")
            self._users[block] -= 1
            if not self._users[block]:
                self._free[block] = None
                if block not in self._hash_of:
                    self._free.move_to_end(block, last=False)

    def condemn(self, blocks: ReadOnlyList[int]) -> None:
        """What `blocks` hold is wrong: nobody is to find it again."""
        for block in blocks:
            self._forget(block)

    def forget_all(self) -> None:
        """No cached prefix can be found any more. Used blocks keep their content for those who use them."""
        self._hash_of.clear()
        self._block_of.clear()

    def check(self, tables: ReadOnlyList[ReadOnlyList[int]]) -> None:
        """free + cached + used == total, and each block has as many users as `tables` that hold it.

        Raises:
            PoolError: with what doesn't balance.
        """
        users = [0] * self.num_blocks
        for table in tables:
            for block in table:
                users[block] += 1
        if users != self._users:
            wrong = [block for block in range(self.num_blocks) if users[block] != self._users[block]]
            raise PoolError(f"users of blocks {wrong[:8]} are miscounted")
        used = {block for block in range(self.num_blocks) if users[block]}
        if used & self._free.keys() or len(used) + len(self._free) != self.num_blocks:
            raise PoolError(f"{len(self._free)} free + {len(used)} used blocks of {self.num_blocks}")
        if {name: block for block, name in self._hash_of.items()} != self._block_of:
            raise PoolError("names and blocks of the prefix cache disagree")

    def _forget(self, block: int) -> None:
        name = self._hash_of.pop(block, None)
        if name is not None:
            del self._block_of[name]
