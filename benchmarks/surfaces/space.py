"""Space: the levels of each knob that a recording launches, and which of them go together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tools.targets.knobs import Value

__all__ = ["BUNDLED", "Space"]


@dataclass(frozen=True)
class Space:
    """A grid: every combination of `levels`, where a knob that its condition switches off stands at its default."""

    levels: Mapping[str, tuple[Value, ...]]
    default: Mapping[str, Value]
    "The engine's own defaults: a cell of the grid."
    conditions: Mapping[str, tuple[str, tuple[Value, ...]]]
    "Knobs that have an effect only where another has one of some values."

    def snap(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The cell that stands for `values`: each knob at its nearest level, missing ones at their default.

        Numbers are compared by ratio; 0 (which switches something off) is near to itself alone.

        Raises:
            KeyError: a knob that isn't in the grid, or a word that isn't among its levels.
        """
        if unknown := values.keys() - self.levels.keys():
            raise KeyError(f"not knobs of this grid: {', '.join(sorted(unknown))}")
        cell = {name: self._nearest(name, values.get(name, self.default[name])) for name in self.levels}
        for name, (other, wanted) in self.conditions.items():
            if cell[other] not in wanted:
                cell[name] = self.default[name]
        return cell

    def cells(self) -> Iterator[dict[str, Value]]:
        """Every cell once."""
        seen = set()
        for values in itertools.product(*self.levels.values()):
            cell = self.snap(dict(zip(self.levels, values, strict=True)))
            if (place := tuple(cell.values())) not in seen:
                seen.add(place)
                yield cell

    def within(self, cells: Iterable[Mapping[str, Value]]) -> Space:
        """The part of this grid that `cells` span: knobs with one level are left out, their conditions with them."""
        seen = [dict(cell) for cell in cells]
        levels = {
            name: tuple(level for level in levels if any(_same(cell[name], level) for cell in seen))
            for name, levels in self.levels.items()
        }
        kept = {name: values for name, values in levels.items() if len(values) > 1}
        conditions = {name: condition for name, condition in self.conditions.items() if name in kept}
        return Space(kept, {name: self.default[name] for name in kept}, conditions)

    def _nearest(self, name: str, value: Value) -> Value:
        levels = self.levels[name]
        for level in levels:
            if _same(level, value):
                return level
        if isinstance(value, bool | str):
            raise KeyError(f"{name}: expected one of {levels}, found {value!r}")
        numbers = [float(level) for level in levels if not isinstance(level, bool | str) and level > 0]
        if value <= 0 or not numbers:
            raise KeyError(f"{name}: expected one of {levels}, found {value!r}")
        best = min(numbers, key=lambda level: abs(math.log(level / value)))
        return next(level for level in levels if not isinstance(level, bool | str) and level == best)


def _same(one: Value, other: Value) -> bool:
    """True equals 1 in Python, but not as a knob's value."""
    return type(one) is type(other) and one == other


BUNDLED = Space(
    levels={
        "max_num_seqs": (1, 2, 4, 32),
        "max_num_batched_tokens": (16, 128, 512),
        "long_prefill_token_threshold": (0, 32, 96),
        "enable_prefix_caching": (False, True),
        "kv_cache_tokens": (32768, 1_250_000),
        "quantization": ("none", "int8", "int4"),
        "dtype": ("auto", "fp32"),
    },
    default={
        "max_num_seqs": 32,
        "max_num_batched_tokens": 512,
        "long_prefill_token_threshold": 0,
        "enable_prefix_caching": True,
        "kv_cache_tokens": 32768,
        "quantization": "none",
        "dtype": "auto",
    },
    conditions={"dtype": ("quantization", ("none",))},
)
"""Of the bundled engine. 1,250,000 tokens of KV cache are 27 GiB with SmolLM2-135M, more than the machine has; a step
of 16 tokens can't hold one of each of 32 sequences."""
