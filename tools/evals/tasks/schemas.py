"""Schemas: does an answer whose form is asked for have it, whatever it says?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.evals.item import Item, TaskSet, chat

__all__ = ["SCHEMAS"]


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_ASKED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "enum": ("Is the sea wet?", _object(answer={"enum": ["yes", "no"]})),
    "boolean": ("Is fire cold?", _object(cold={"type": "boolean"}, sure={"type": "boolean"})),
    "nested": (
        "How big is a tennis court?",
        _object(size=_object(unit={"enum": ["m", "ft"]}), indoors={"type": "boolean"}),
    ),
    "const": ("Which version is this?", _object(version={"const": 2}, stable={"type": "boolean"})),
}
"""Every answer is short however it goes, blanks aside, so that few are cut before they are whole."""


def _item(name: str) -> Item:
    text, schema = _ASKED[name]
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
    return chat(name, text, "enforced_json", schema, max_tokens=40, response_format=form)


SCHEMAS = TaskSet("schemas", tuple(_item(name) for name in _ASKED))
