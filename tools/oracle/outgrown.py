"""Outgrown: what ran out of memory at some size does so at more, whatever knob the size comes from."""

from __future__ import annotations

from collections.abc import Sequence

from tools.oracle.opinion import Opinion, learned

__all__ = ["opinion"]

WEIGHT = 3.0
"""How many coin tosses one launch is worth here. One failure and nothing against it leave a chance of 1 in 8."""


def opinion(need_bytes: int, failed_bytes: Sequence[int], ran_bytes: Sequence[int]) -> Opinion | None:
    """By total need of the closed formula: memory is one pool, so that any two configs can be compared.

    (0.5 + w r) / (1 + w r + w f), where f configs ran out of memory at no more than `need_bytes` and r ran at no less;
    None where f is 0. More need can only raise f and lower r: the chance never rises with a memory-like knob.
    """
    failed = [size for size in failed_bytes if size <= need_bytes]
    if not failed:
        return None
    ran = sum(size >= need_bytes for size in ran_bytes)
    chance = (0.5 + WEIGHT * ran) / (1 + WEIGHT * (ran + len(failed)))
    against = f", but {ran} that needed as much ran" if ran else ""
    return learned(
        chance,
        "oom",
        f"{len(failed)} launched configs ran out of memory from {min(failed) / 2**30:.2f} GiB on, and this one needs "
        f"{need_bytes / 2**30:.2f}{against}",
    )
