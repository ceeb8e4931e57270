"""Canonical JSON and the digest that content-addresses everything in a run."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["canonical_json", "digest"]


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, no white space and no NaN: equal values give equal bytes.

    Raises:
        ValueError: a NaN or an infinity, which JSON can't hold.
        TypeError: a type that JSON doesn't have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """sha256 of the canonical JSON of `value`, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
