"""Redaction: what a secret looks like, and texts of others made fit to be stored and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["NAME_PART", "SECRETS", "printable", "redacted", "redacted_texts"]

NAME_PART = r"(?:\d{1,3}x)?(?:[A-Z]?[a-z]{2,20}+){0,9}+[A-Z]{0,5}[a-z]?\d{0,4}[A-Za-z]{0,2}"
"""Of the name of a model or a knob, such as Qwen3-235B-A22B-Instruct: words, a few capitals, a number at the end."""

_END = r"(?![\w.~+/-])"
_NAME = rf"(?=\S{{0,64}}[a-z]{{3}})(?>{NAME_PART}(?=[-_/.]|{_END}))(?:[-_/.](?>{NAME_PART}(?=[-_/.]|{_END})))*{_END}"
"A whole name. Each part is matched in one way alone, so a text made for it can't make this slow."
_DECIMAL = r"\d+\.\d+(?:[eE][-+]?\d+)?\.?(?![\w~+/-])"

_PATTERNS = {
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?:-----[\s\S]*?-----END [A-Z0-9 ]+-----)?",
    "an access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a forge's token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})",
    "a model hub's token": r"\bhf_[A-Za-z0-9]{16,}",
    "an API key": r"\b(?:sk|pk|rk)(?:-(?:[a-z]+-)*|_(?:live|test)_)[A-Za-z0-9_-]{16,}|\bAIza[\w-]{30,}",
    "a chat token": r"\bxox[abeprs]-[\w-]{10,}",
    "a signed token": r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}",
    "a bearer token": r"(?i)\bbearer\s+[\w.~+/=-]{16,}",
    "a URL with a password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:[^\s/@]{3,128}@",
    "a secret variable": r"\b[A-Z][A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD)[\"']?\s*[:=]\s*[\"']?[^\s\"']{6,}",
    "a token": rf"(?i:token)[\"']?\s*[:=]\s*[\"']?(?=[^\s\"']*\d)(?!{_DECIMAL}|{_NAME})[\w.~+/-]{{16,}}",
    "a password": r"(?i)(?:pass(?:word|wd|phrase)|secret|(?:api|auth|access)[_-]?(?:key|token))[\"']?\s*"
    r"(?:=\s*[\"']?|:\s*[\"']|:\s*(?=\S*\d))[^\s\"']{6,}",  # "The secret: patience" is prose
}  # fmt: skip

SECRETS: Mapping[str, re.Pattern[str]] = MappingProxyType({name: re.compile(each) for name, each in _PATTERNS.items()})
"""What each kind looks like; `change.secrets` refuses a commit by the same table."""


def redacted(text: str) -> str:
    """`text` with every secret that is recognised replaced by what it was: `[redacted: an API key]`."""
    for name, pattern in SECRETS.items():
        text = pattern.sub(f"[redacted: {name}]", text)
    return text


def redacted_texts(value: Any) -> Any:
    """`value`, JSON as it is, with every text in it redacted; names of fields stay."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: redacted_texts(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_texts(item) for item in value]
    return value


def printable(text: str) -> str:
    """`text` without characters that would move a terminal's cursor or turn its direction of writing."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
