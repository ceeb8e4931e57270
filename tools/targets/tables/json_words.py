"""JSON on a command line: the members of an object by dotted key, and its text written again in its own style."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from tools.targets.knobs import KnobError

__all__ = ["dump_like", "member", "parse_object", "with_member", "without_member"]

_COMPACT = (",", ":")


def parse_object(flag: str, text: str) -> dict[str, Any]:
    """The object that `text` holds.

    Raises:
        KnobError: it is no JSON object.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise KnobError(f"{flag}: expected a JSON object, found {text!r}: {error}") from None
    if not isinstance(found, dict):
        raise KnobError(f"{flag}: expected a JSON object, found {text!r}")
    return found


def dump_like(value: Mapping[str, Any], text: str) -> str:
    """`value` as JSON, with spaces where `text` has some, and without where it has none."""
    spaced = ": " in text or ", " in text
    return json.dumps(value, ensure_ascii=False, separators=None if spaced else _COMPACT)


def member(value: Mapping[str, Any], key: str) -> Any:
    """The member at the dotted `key`; None where there is none."""
    found: Any = value
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def with_member(value: Mapping[str, Any], key: str, new: Any) -> dict[str, Any]:
    """A copy of `value` with the member at the dotted `key` set."""
    result = copy.deepcopy(dict(value))
    *above, last = key.split(".")
    inner = result
    for part in above:
        deeper = inner.get(part)
        inner[part] = deeper = deeper if isinstance(deeper, dict) else {}
        inner = deeper
    inner[last] = new
    return result


def without_member(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A copy of `value` without the member at the dotted `key`, nor what is empty then above it."""
    first, _, deeper = key.partition(".")
    result = copy.deepcopy(dict(value))
    if deeper and isinstance(result.get(first), dict):
        result[first] = without_member(result[first], deeper)
        if result[first]:
            return result
    result.pop(first, None)
    return result
