"""What a request may say: OpenAI's fields, and those of vLLM's extensions that we have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.errors import RequestRefused
from engine.sampling import SamplingParams

__all__ = ["ChatRequest", "CompletionRequest", "Message", "StreamOptions"]

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "logit_bias": ({},),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "guided_json": (),
    "structured_outputs": (),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "web_search_options": (),
    "skip_special_tokens": (True,),
    "add_generation_prompt": (True,),
}
"""Fields the engine knows and doesn't have, with the values that ask for nothing. Any other value is refused."""

HARMLESS = frozenset(
    ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
)
"""Fields that change nothing about the answer."""


def same(value: Any, neutral: Any) -> bool:
    """Equal, and both or neither a bool: `logprobs: 0` asks for something, `logprobs: false` doesn't."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool = False
    "A last chunk without choices carries the usage."
    continuous_usage_stats: bool = False
    "Every chunk carries the usage so far."
    include_obfuscation: bool = False

    @field_validator("include_obfuscation")
    @classmethod
    def no_obfuscation(cls, value: bool) -> bool:
        if value:
            raise ValueError("include_obfuscation is not supported")
        return value


class GenerationRequest(BaseModel):
    """What both endpoints share."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    temperature: Annotated[float, Field(allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(allow_inf_nan=False)] | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    return_token_ids: bool = False
    "Chunks and choices carry the ids of their tokens, the first chunk those of the prompt."

    @model_validator(mode="before")
    @classmethod
    def refuse_unsupported(cls, data: Any) -> Any:
        """Say no to what we know but don't have, rather than ignore it; drop what changes nothing."""
        if not isinstance(data, dict):
            return data
        kept = {}
        for name, value in data.items():
            if name in HARMLESS:
                continue
            if name in NEUTRAL and name not in cls.model_fields:
                if value is not None and not any(same(value, neutral) for neutral in NEUTRAL[name]):
                    raise RequestRefused(f"{name} is not supported", code="unsupported_parameter", param=name)
                continue
            kept[name] = value
        return kept

    @model_validator(mode="after")
    def stream_options_need_stream(self) -> GenerationRequest:
        if self.stream_options is not None and not self.stream:
            raise RequestRefused("stream_options is only allowed with stream: true", param="stream_options")
        return self

    @property
    def usage_at_end(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def usage_always(self) -> bool:
        return self.usage_at_end and self.stream_options is not None and self.stream_options.continuous_usage_stats

    def sampling(self, max_tokens: int) -> SamplingParams:
        """The sampling that is asked for, with OpenAI's defaults.

        Raises:
            RequestRefused: a value out of range.
        """
        given = {name: getattr(self, name) for name in ("temperature", "top_p", "top_k", "seed")}
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return SamplingParams(
            max_tokens=max_tokens,
            stop=tuple(stop),
            stop_token_ids=frozenset(self.stop_token_ids or []),
            ignore_eos=self.ignore_eos,
            **{name: value for name, value in given.items() if value is not None},
        )


class CompletionRequest(GenerationRequest):
    """Body of POST /v1/completions."""

    prompt: str | list[int] | list[str] | list[list[int]]

    def single_prompt(self) -> str | list[int]:
        """The one prompt.

        Raises:
            RequestRefused: several prompts in one request.
        """
        prompt = self.prompt
        if isinstance(prompt, str):
            return prompt
        if prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise RequestRefused(
                    f"one prompt per request is supported, found {len(prompt)}; send them as requests of their own",
                    code="unsupported_parameter",
                    param="prompt",
                )
            return prompt[0]
        return [token for token in prompt if isinstance(token, int)]


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn. Content is text, or parts that are all text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        """As chat templates take it. `developer` is OpenAI's newer word for `system`."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class ChatRequest(GenerationRequest):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: int | None = None
    "OpenAI's newer name of max_tokens."
