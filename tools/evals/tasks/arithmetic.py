"""Arithmetic: sums to go on with after a few examples, which small models can do too."""

from __future__ import annotations

from tools.evals.item import Item, TaskSet, completion

__all__ = ["ARITHMETIC"]

_SUMS = ((2, 3), (4, 4), (5, 1), (12, 5), (20, 30), (9, 9), (10, 6), (7, 2), (50, 50), (30, 4))
_DIFFERENCES = ((20, 5), (6, 2), (8, 3), (10, 5))


def _item(sign: str, a: int, b: int, result: int) -> Item:
    examples = "3 + 4 = 7\n10 - 2 = 8\n11 + 6 = 17\n15 - 5 = 10\n"
    return completion(f"{a}{sign}{b}", f"{examples}{a} {sign} {b} =", "number", result, max_tokens=4, stop=["\n"])


ARITHMETIC = TaskSet(
    "arithmetic",
    (*(_item("+", a, b, a + b) for a, b in _SUMS), *(_item("-", a, b, a - b) for a, b in _DIFFERENCES)),
)
