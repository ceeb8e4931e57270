"""How a YAML scalar reads and how a value is written, so that every parser of either YAML version agrees."""

from __future__ import annotations

import math
import re

import yaml

from tools.targets.knobs import Value

__all__ = ["is_plain_string", "read_plain", "write_scalar"]

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OUTLAWED = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)|<<|=")
_SAFE_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*")


def read_plain(node: yaml.ScalarNode) -> Value | None:
    """The value of a plain (unquoted) scalar, as composed by PyYAML.

    YAML 1.1 (PyYAML, and much of Kubernetes' tooling) and YAML 1.2 type some scalars differently: `on`, `010`, `1:30`,
    `1e5`, `1_000`, `2026-01-01`. Those are refused, as are `.inf` and `.nan`, which JSON doesn't have.

    Raises:
        ValueError: with the two readings, or the reason.
    """
    text: str = node.value
    if _OUTLAWED.fullmatch(text):
        raise ValueError(f"{text} has no JSON value")
    new = _read_core_schema(text)
    old = yaml.constructor.SafeConstructor().construct_object(node)
    if type(old) is not type(new) or old != new:
        raise ValueError(f"YAML 1.1 reads {text} as {old!r}, YAML 1.2 as {new!r}")
    return new


def write_scalar(value: Value, quote: str = "") -> str:
    """`value` as one line of YAML that reads back as the same value of the same type.

    `quote` is the quote that stood around the old value; a string keeps it. Without one, a string is plain where
    that is safe.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _write_float(value)
    if not quote and _SAFE_PLAIN.fullmatch(value) and is_plain_string(value):
        return value
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return str(yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf)).removesuffix("\n")


def _read_core_schema(text: str) -> Value | None:
    """YAML 1.2.2, section 10.3.2: the core schema's tag resolution."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text):
        return int(text)
    if text.startswith("0o") and re.fullmatch("[0-7]+", text[2:]):
        return int(text[2:], 8)
    if text.startswith("0x") and re.fullmatch("[0-9a-fA-F]+", text[2:]):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _write_float(value: float) -> str:
    """Shortest decimal that reads back; with the dot that YAML 1.1 wants before an exponent."""
    if not math.isfinite(value):
        raise ValueError(f"{value} can't be written as YAML that JSON can hold")
    mantissa, e, exponent = repr(value).partition("e")
    return mantissa + (".0" if e and "." not in mantissa else "") + e + exponent


def is_plain_string(text: str) -> bool:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    try:
        return isinstance(node, yaml.ScalarNode) and read_plain(node) == text
    except ValueError:
        return False
