"""Scorers: exact functions from an answer and what was expected to a score from 0 to 1. No model judges another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tools.evals.json_schema import schema_fault
from tools.evals.said import Said

__all__ = ["SCORERS", "Scorer"]

Scorer = Callable[[Said, Any], float]

_NO_JSON = (ValueError, RecursionError)
"Of a text: it isn't JSON, or nested so deep, or of such halves of characters, that nobody reads it."
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def exact(said: Said, expected: str | list[str]) -> float:
    """The text is one of the expected ones, blanks around it aside."""
    return float(said.text.strip() in ([expected] if isinstance(expected, str) else expected))


def begins(said: Said, expected: str) -> float:
    """The text begins with what was expected, and the word ends there."""
    text = said.text.lstrip()
    return float(text.startswith(expected) and not text[len(expected) : len(expected) + 1].isalnum())


def number(said: Said, expected: float) -> float:
    """The first number of the text is the expected one."""
    found = _NUMBER.search(said.text)
    return float(found is not None and float(found[0]) == expected)


def regex(said: Said, expected: str) -> float:
    """The pattern is found in the text."""
    return float(re.search(expected, said.text) is not None)


def json_schema(said: Said, expected: Mapping[str, Any]) -> float:
    """The whole text is JSON that keeps the schema."""
    return float(_keeps(said.text, expected))


def json_fields(said: Said, expected: Mapping[str, Any]) -> float:
    """The share of the expected fields that the first JSON object in the text has with the expected values."""
    found = _first_object(said.text)
    return _share([found.get(name) == value for name, value in expected.items()])


def constraints(said: Said, expected: Mapping[str, Any]) -> float:
    """The share of the constraints that the text keeps. Where it says nothing, it keeps none."""
    text = said.text.strip()
    return _share([_KEPT[name](text, value) for name, value in expected.items()]) if text else 0.0


def enforced_json(said: Said, expected: Mapping[str, Any]) -> float:
    """As `json_schema`, but an object that was cut before its end counts half: what is there has the form."""
    return json_schema(said, expected) or 0.5 * _is_cut(said, said.text)


def tool_call(said: Said, expected: Mapping[str, Any]) -> float:
    """One call, of the `name` expected, with arguments that keep the `schema`; one that was cut counts half."""
    if len(said.calls) != 1 or said.calls[0].name != expected["name"]:
        return 0.0
    written = said.calls[0].arguments
    if said.finish_reason == "length":
        return 0.5 * _is_cut(said, written)
    return float(_keeps(written, expected["schema"]))


def _keeps(written: str, schema: Mapping[str, Any]) -> bool:
    try:
        return not schema_fault(json.loads(written), schema)
    except _NO_JSON:
        return False


def _is_cut(said: Said, written: str) -> bool:
    return said.finish_reason == "length" and written.lstrip().startswith("{")


def _share(kept: list[bool]) -> float:
    return sum(kept) / len(kept)


def _first_object(text: str) -> Mapping[str, Any]:
    start = text.find("{")
    if start < 0:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except _NO_JSON:
        return {}
    return value if isinstance(value, dict) else {}


_KEPT: Mapping[str, Callable[[str, Any], bool]] = MappingProxyType(
    {
        "words_at_most": lambda text, count: len(text.split()) <= count,
        "words_at_least": lambda text, count: len(text.split()) >= count,
        "lines_at_least": lambda text, count: len([line for line in text.splitlines() if line.strip()]) >= count,
        "contains": lambda text, part: part.lower() in text.lower(),
        "lacks": lambda text, part: part not in text,
        "starts": lambda text, part: text.lower().startswith(part.lower()),
        "ends": lambda text, part: text.endswith(part),
        "upper": lambda text, wanted: text.isupper() is wanted,
        "lower": lambda text, wanted: text.islower() is wanted,
        "matches": lambda text, pattern: re.search(pattern, text, re.MULTILINE) is not None,
    }
)

SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        scorer.__name__: scorer
        for scorer in (exact, begins, number, regex, json_schema, json_fields, constraints, enforced_json, tool_call)
    }
)
