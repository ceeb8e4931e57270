"""Spelled and ReadBack: knob values as words, and words as knob values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.targets.knobs import Value

__all__ = ["ReadBack", "Spelled"]


@dataclass(frozen=True, slots=True)
class Spelled:
    """What says some values to an engine."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a command says, apart: knobs, and what is none."""

    values: dict[str, Value]
    rest: tuple[str, ...]
    "The words that are no knob, in their order. A JSON object stays here with the members that are none."
    environment: dict[str, str]
    "The variables that are no knob."
