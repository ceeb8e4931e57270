"""LlmSettings: where a model answers, how much it may say, and what its tokens cost."""

from __future__ import annotations

import os
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from agents.llm_endpoint import LlmEndpoint, is_openai
from agents.usage import Usage
from agents.wire import Shape, Wire
from tools.errors import UserError

__all__ = ["LlmPrices", "LlmSettings"]


class LlmPrices(BaseModel):
    """US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    "Of prompt tokens that the endpoint had in its cache; as `input` where it isn't given."
    output: float = Field(ge=0, allow_inf_nan=False)
    "Thoughts included."

    @classmethod
    def parse(cls, text: str) -> LlmPrices:
        """`0.15,0.075,0.60` (input, cached, output) or `0.15,0.60` (input, output).

        Raises:
            UserError: anything else.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
            names = ("input", "cached", "output") if len(numbers) == 3 else ("input", "output")
            return cls.model_validate(dict(zip(names, numbers, strict=True)))
        except ValueError:  # pydantic's is one too
            raise UserError(
                "LLM prices: expected US dollars for a million tokens as INPUT,CACHED,OUTPUT or INPUT,OUTPUT, "
                f"found {text!r}"
            ) from None

    def usd(self, usage: Usage) -> float:
        """What `usage` costs. A cached token counts at the lower price only where the endpoint says that it was one."""
        cached = self.input if self.cached is None else self.cached
        fresh_tokens = usage.prompt_tokens - usage.cached_tokens
        cost = fresh_tokens * self.input + usage.cached_tokens * cached + usage.completion_tokens * self.output
        return cost / 1e6


class LlmSettings(BaseModel):
    """Where the model answers, and how much it may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    base_url: str | None = None
    "Up to and including /v1. None: OpenAI's own."
    api_key_env: str | None = None
    "Environment variable with the key. None: OPENAI_API_KEY for OpenAI's own endpoint, and no key for any other."
    max_tokens: int = Field(default=2048, ge=64)
    "Of one answer, thoughts included."
    timeout_s: float = Field(default=90.0, gt=0)
    "Of one question, its retries included."
    temperature: float | None = Field(default=None, ge=0, le=2)
    "None: the endpoint's own. Not sent to an endpoint that refuses one."
    structured: Shape = "json_schema"
    "How the answer's shape is asked for at first; an endpoint that can't is asked for less."
    prices: LlmPrices | None = None
    "Without them no money can be counted, and a limit in money lets no call through."

    def endpoint(self) -> LlmEndpoint:
        """The endpoint, with its key; to be closed by whoever asked for it.

        Raises:
            UserError: the environment variable of the key isn't set, or holds what no key can be.
        """
        return LlmEndpoint(self.base_url, self._api_key(), self.timeout_s)

    def wire(self) -> Wire:
        """The form of the first request."""
        return Wire(response_format=self.structured)

    def priced(self, usage: Usage) -> Usage:
        """`usage` with what it costs."""
        if not usage.total_tokens:
            return usage
        return replace(usage, usd=self.prices.usd(usage) if self.prices is not None else None)

    def _api_key(self) -> str:
        if self.api_key_env is None and not is_openai(self.base_url):
            return "none"
        name = self.api_key_env or "OPENAI_API_KEY"
        key = os.environ.get(name, "").strip()  # a file read into a variable often leaves a line's end
        if not key:
            raise UserError(f"LLM: expected the API key in the environment variable {name}, found it unset; set it")
        if not (key.isascii() and key.isprintable()):
            raise UserError(
                f"LLM: expected an API key of printable ASCII characters in the environment variable {name}, "
                "found others among them; copy the key anew"
            )
        return key
