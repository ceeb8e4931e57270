"""Values and the words that say them, on a command line, in a variable or in a JSON object."""

from __future__ import annotations

import re
from typing import Any

from tools.targets.knobs import KnobError, Value
from tools.targets.tables.row import KnobRow

__all__ = ["is_open", "is_unexpanded", "value_of", "value_of_json", "word_of"]

_TRUE, _FALSE = ("1", "true", "on", "enabled"), ("0", "false", "off", "disabled")
"Of variables, as llama.cpp reads them."
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")
_UNEXPANDED = re.compile(r"\$[A-Za-z_{(]|\{\{|`|%\{")


def is_unexpanded(word: str) -> bool:
    """Whether a shell, Kubernetes, systemd or a template makes something else of `word` before the engine sees it."""
    return _UNEXPANDED.search(word) is not None


def is_open(row: KnobRow, word: str) -> bool:
    """Whether `word` leaves the choice to the engine, and is no value of the knob."""
    return word in row.open_words


def word_of(row: KnobRow, value: Value) -> str:
    """The word that says `value`."""
    if isinstance(value, bool):
        words = row.words.get("true" if value else "false")
        return words[0] if words else ("1" if value else "0")
    return str(value)


def value_of(row: KnobRow, word: str) -> Value:
    """The value that `word` says, checked.

    Raises:
        KnobError: it says none that the knob can take.
    """
    return row.knob.check(_read(row, word))


def _read(row: KnobRow, word: str) -> object:
    if row.kind == "bool":
        said = word.lower()
        if said in row.words.get("true", _TRUE):
            return True
        return False if said in row.words.get("false", _FALSE) else word
    if row.kind == "choice":
        return next((choice for choice in row.choices if str(choice) == word), word)
    if row.kind == "float":
        try:
            return float(word)
        except ValueError:
            return word
    return _whole(word, row.human)


def _whole(word: str, human: bool) -> object:
    if re.fullmatch(r"[+-]?\d+", word):
        return int(word)
    found = _HUMAN.fullmatch(word) if human else None
    if found is None or ("." in found[1] and found[2].isupper()):
        return word  # which the engines refuse too: binary units take whole numbers
    power = "kmgt".index(found[2].lower()) + 1
    return round(float(found[1]) * 1000**power) if found[2].islower() else int(found[1]) * 1024**power


def value_of_json(row: KnobRow, member: Any) -> Value:
    """The value that a member of a JSON object is, checked.

    Raises:
        KnobError: it is none that the knob can take.
    """
    if isinstance(member, bool | int | float):
        return row.knob.check(float(member) if row.kind == "float" and type(member) is int else member)
    if isinstance(member, str):
        return value_of(row, member)
    raise KnobError(f"knob {row.name}: expected a {row.kind}, found {member!r}")
