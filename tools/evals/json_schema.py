"""JSON Schema: does a value keep it? References to other documents are refused, so that nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import jsonschema_rs

__all__ = ["checked_schema", "schema_fault"]


def schema_fault(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with `value` by `schema`; empty where nothing is.

    Raises:
        ValueError: `schema` isn't a valid schema of its own.
    """
    first = next(iter(_validator(schema).iter_errors(value)), None)
    return "" if first is None else str(first.message)


def checked_schema(schema: Any) -> Mapping[str, Any]:
    """`schema`, if it is one.

    Raises:
        ValueError: it isn't, or it refers to another document.
    """
    if not isinstance(schema, dict):
        raise ValueError(f"expected a JSON schema (an object), found {schema!r}")
    _validator(schema)
    return schema


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(dict(schema), retriever=_refuse)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri}: a schema must stand by itself; nothing is fetched")
