"""Answer: what a person says to a request for approval."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["Answer"]

_NAME_CHARS, _WHY_CHARS = 120, 400


class Answer(BaseModel):
    """What a person said, to which request. Anything that isn't exactly this is no answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    decision: Literal["approve", "reject"]
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    "Of the request that is answered."
    by: str = Field(min_length=1, max_length=_NAME_CHARS)
    "Who says so: a claim, as an author's name in git is one."
    why: str = Field(default="", max_length=_WHY_CHARS)

    @field_validator("by", "why")
    @classmethod
    def _one_line(cls, text: str) -> str:
        """They go into a commit's trailers and onto a terminal."""
        if not text.isprintable() or re.search(r"\s{2,}", text) or text != text.strip():
            raise ValueError("expected one line of printable text")
        return text
