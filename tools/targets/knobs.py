"""Knob, Config and KnobSpace: the tunable settings of a target, in one vocabulary for every engine."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from tools.canonical import digest
from tools.errors import UserError

__all__ = ["Config", "Knob", "KnobError", "KnobSpace", "Value"]

Value = bool | int | float | str


class KnobError(UserError):
    """A knob that doesn't exist, or a value it can't take."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One tunable setting. `low` and `high` are inclusive and belong to numbers; `choices` to everything else."""

    name: str
    kind: Literal["bool", "int", "float", "choice"]
    default: Value
    meaning: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()
    unit: str = ""
    live: bool = False
    "Can be changed without a restart."
    outputs: Literal["lossless", "lossy"] = "lossless"
    "Whether the setting can change what the model says."
    tunable: bool = True
    "False: the owner may set it, a proposal never may (it bounds service or safety)."
    auto: Value | None = None
    "The value that lets the engine choose; the effective value may then differ from the one asked for."
    flag: str = ""
    only_when: tuple[str, tuple[Value, ...]] | None = None
    "Another knob and its values: this one has an effect only where that one has one of them. None: always."

    def check(self, value: object) -> Value:
        """`value` if this knob can take it.

        Raises:
            KnobError: wrong type, out of range or not among the choices. Nothing is ever clamped.
        """
        if self.kind == "bool":
            if isinstance(value, bool):
                return value
            raise self._refuse(value, "true or false")
        if self.kind == "choice":
            for choice in self.choices:
                if type(choice) is type(value) and choice == value:
                    return choice
            raise self._refuse(value, "one of " + ", ".join(map(str, self.choices)))
        number = isinstance(value, int) or (self.kind == "float" and isinstance(value, float))
        if isinstance(value, bool) or not number:
            raise self._refuse(value, "a whole number" if self.kind == "int" else "a number")
        assert isinstance(value, int | float)
        if not _is_finite(value):
            raise self._refuse(value, "a finite number")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise self._refuse(value, f"{self.low:g} to {self.high:g} {self.unit}".rstrip())
        return value

    def _refuse(self, value: object, expected: str) -> KnobError:
        return KnobError(f"knob {self.name}: expected {expected}, found {value!r}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "choices": list(self.choices)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Knob:
        row = {**data, "choices": tuple(data["choices"])}
        if (condition := data.get("only_when")) is not None:
            row["only_when"] = (condition[0], tuple(condition[1]))
        return cls(**row)


def _is_finite(number: float) -> bool:
    """Whether `number` is finite and fits a float: a whole number of 400 digits doesn't, and no limit would stop it."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


@dataclass(frozen=True)
class Config:
    """A full assignment of knobs, content-addressed."""

    values: Mapping[str, Value]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(sorted(self.values.items()))))

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical JSON of the values."""
        return digest(dict(self.values))

    def diff(self, other: Config) -> dict[str, tuple[Value | None, Value | None]]:
        """Knobs whose value differs, as `{name: (here, there)}`."""
        names = sorted(self.values.keys() | other.values.keys())
        pairs = {name: (self.values.get(name), other.values.get(name)) for name in names}
        # True equals 1 in Python, but not on a command line.
        return {name: (a, b) for name, (a, b) in pairs.items() if a != b or type(a) is not type(b)}

    def patched(self, patch: Mapping[str, Value]) -> Config:
        """This config with the knobs of `patch` changed. Check values with `KnobSpace.resolve` first."""
        return Config({**self.values, **patch})

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class KnobSpace:
    """All knobs of one target, by name."""

    knobs: Mapping[str, Knob]

    def __iter__(self) -> Iterator[Knob]:
        return iter(self.knobs.values())

    def __getitem__(self, name: str) -> Knob:
        """The knob called `name`.

        Raises:
            KnobError: no such knob; the message suggests the nearest name.
        """
        if name in self.knobs:
            return self.knobs[name]
        near = difflib.get_close_matches(name, self.knobs, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else "known knobs: " + ", ".join(sorted(self.knobs))
        raise KnobError(f"unknown knob {name!r}; {hint}")

    def resolve(self, values: Mapping[str, object]) -> Config:
        """The full Config that `values` stands for: every value checked, every missing knob at its default.

        Raises:
            KnobError: an unknown name or a value that its knob can't take.
        """
        given = {name: self[name].check(value) for name, value in values.items()}
        return Config({knob.name: given.get(knob.name, knob.default) for knob in self})

    def active(self, values: Mapping[str, Value]) -> frozenset[str]:
        """Names of the knobs that have an effect in `values`, a full config.

        A knob whose condition names a knob that isn't in effect itself has none either.

        Raises:
            KnobError: conditions that form a circle, or name a knob that neither this space nor `values` has.
        """
        found: dict[str, bool] = {}
        for name in self.knobs:
            self._is_active(name, values, found, ())
        return frozenset(name for name in self.knobs if found[name])

    def _is_active(self, name: str, values: Mapping[str, Value], found: dict[str, bool], path: tuple[str, ...]) -> bool:
        if name in path:
            raise KnobError(f"knob {name}: its condition leads back to itself, through {' and '.join(path)}")
        if name not in found:
            condition = self.knobs[name].only_when if name in self.knobs else None
            found[name] = True
            if condition is not None:
                other, wanted = condition
                if other not in values:
                    raise KnobError(f"knob {name}: its condition names {other!r}, which this config doesn't have")
                holds = any(type(values[other]) is type(value) and values[other] == value for value in wanted)
                found[name] = self._is_active(other, values, found, (*path, name)) and holds
        return found[name]

    def to_json(self) -> list[dict[str, Any]]:
        return [knob.to_json() for knob in self]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> KnobSpace:
        return cls({row["name"]: Knob.from_json(row) for row in data})

    def only(self, names: frozenset[str]) -> KnobSpace:
        """The part of this space that `names` spans."""
        return KnobSpace({knob.name: knob for knob in self if knob.name in names})
