"""Extraction: a sentence's facts as JSON, freely after an example and by a schema that the server enforces."""

from __future__ import annotations

from typing import Any

from tools.evals.item import Item, TaskSet, chat, completion

__all__ = ["EXTRACTION"]

_SENTENCES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Maria is 34 years old and lives in Lisbon.", {"name": "Maria", "age": 34, "city": "Lisbon"}),
    ("Tom, who lives in Berlin, turned 27.", {"name": "Tom", "age": 27, "city": "Berlin"}),
    ("In Oslo lives a girl of 9 called Ida.", {"name": "Ida", "age": 9, "city": "Oslo"}),
)
_EXAMPLE = 'Anna is 40 and lives in Rome.\n{"name": "Anna", "age": 40, "city": "Rome"}\n'
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"type": "string", "maxLength": 12},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}


def _free(index: int, sentence: str, facts: dict[str, Any]) -> Item:
    return completion(f"free-{index}", f"{_EXAMPLE}{sentence}\n", "json_fields", facts, max_tokens=24, stop=["\n"])


def _by_schema(index: int, sentence: str, facts: dict[str, Any]) -> Item:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": _SCHEMA}}
    text = f"Who is it? {sentence} Answer with name, age and city as JSON."
    return chat(f"schema-{index}", text, "json_fields", facts, max_tokens=48, response_format=form)


EXTRACTION = TaskSet(
    "extraction", tuple(make(index, *row) for make in (_free, _by_schema) for index, row in enumerate(_SENTENCES))
)
