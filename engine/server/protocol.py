"""What a request may say: OpenAI's fields, and those of vLLM's extensions that we have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.errors import RequestRefused
from engine.grammar import Grammar
from engine.sampling import SamplingParams
from engine.server.answer_format import AnswerFormat
from engine.server.chat_messages import Json, Message, NamedToolChoice, Strict, Tool
from engine.server.neutral import without_neutral

__all__ = ["ChatRequest", "CompletionRequest", "DetokenizeRequest", "GenerationRequest", "TokenizeRequest"]


def told(**bounds: Any) -> Any:
    """Bounds that the schema tells; whoever acts on the field checks them, in words of its own."""
    return Field(json_schema_extra=bounds)


StopString = Annotated[str, told(minLength=1)]
Bias = Annotated[float, told(minimum=-100, maximum=100)]
TokenIds = list[Annotated[int, told(minimum=0)]]


class StreamOptions(Strict):
    include_usage: bool | None = False
    "A last chunk without choices carries the usage."
    continuous_usage_stats: bool | None = False
    "Every chunk carries the usage so far."
    include_obfuscation: bool | None = False

    @field_validator("include_obfuscation")
    @classmethod
    def no_obfuscation(cls, value: bool | None) -> bool | None:
        if value:
            raise ValueError("include_obfuscation is not supported")
        return value


class GenerationRequest(AnswerFormat):
    """What both endpoints share."""

    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    max_tokens: Annotated[int | None, told(minimum=0)] = None
    min_tokens: Annotated[int | None, told(minimum=0)] = None
    temperature: Annotated[float | None, told(minimum=0, maximum=2)] = None
    top_p: Annotated[float | None, told(exclusiveMinimum=0, maximum=1)] = None
    top_k: Annotated[int | None, told(minimum=-1, maximum=2**31 - 1)] = None
    min_p: Annotated[float | None, told(minimum=0, maximum=1)] = None
    seed: Annotated[int | None, told(minimum=-(2**63), maximum=2**63 - 1)] = None
    presence_penalty: Annotated[float | None, told(minimum=-2, maximum=2)] = None
    frequency_penalty: Annotated[float | None, told(minimum=-2, maximum=2)] = None
    repetition_penalty: Annotated[float | None, told(exclusiveMinimum=0, maximum=10)] = None
    logit_bias: dict[Annotated[str, Field(pattern=r"^\d{1,9}$")], Bias] | None = None
    stop: StopString | Annotated[list[StopString], told(maxItems=16)] | None = None
    include_stop_str_in_output: bool = False
    stop_token_ids: TokenIds | None = None
    ignore_eos: bool | None = False
    skip_special_tokens: bool = True
    add_special_tokens: bool | None = None
    prompt_logprobs: Annotated[int | None, told(minimum=0, maximum=20)] = None
    return_token_ids: bool | None = False
    "Chunks and choices carry the ids of their tokens, the first chunk those of the prompt."
    return_tokens_as_token_ids: bool | None = False
    "Log-probabilities name tokens as token_id:N."
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    "Lower goes first."
    deadline_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    "Seconds from arrival after which the answer is of no use."
    request_id: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,128}$")] | None = None

    @model_validator(mode="before")
    @classmethod
    def refuse_unsupported(cls, data: Any) -> Any:
        """Say no to what we know but don't have, rather than ignore it; drop what changes nothing."""
        return without_neutral(data, cls.model_fields) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def fields_fit(self) -> GenerationRequest:
        if self.stream_options is not None and not self.stream:
            raise RequestRefused("stream_options is only allowed with stream: true", param="stream_options")
        if self.min_tokens and self.asked_grammar():
            raise RequestRefused("min_tokens: a grammar says itself when the answer is over", param="min_tokens")
        return self

    @property
    def usage_at_end(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def usage_always(self) -> bool:
        return (
            self.usage_at_end and self.stream_options is not None and bool(self.stream_options.continuous_usage_stats)
        )

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def num_logprobs(self) -> int | None:
        """Alternatives to tell with each token of the answer; None where no log-probabilities are."""
        return None

    @property
    def num_prompt_logprobs(self) -> int | None:
        return self.prompt_logprobs

    def sampling(self, max_tokens: int, grammar: Grammar | None, copy: int = 0) -> SamplingParams:
        """The sampling that is asked for, with OpenAI's defaults; the seeds of a prompt's answers follow each other.

        Raises:
            RequestRefused: a value out of range.
        """
        names = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty")
        given = {name: getattr(self, name) for name in (*names, "repetition_penalty", "min_tokens")}
        return SamplingParams(
            max_tokens=max_tokens,
            seed=None if self.seed is None else self.seed + copy,
            logit_bias=tuple((int(token), bias) for token, bias in (self.logit_bias or {}).items()),
            stop=self.stops,
            stop_token_ids=frozenset(self.stop_token_ids or []),
            ignore_eos=bool(self.ignore_eos),
            logprobs=self.num_logprobs,
            prompt_logprobs=self.num_prompt_logprobs,
            grammar=grammar,
            **{name: value for name, value in given.items() if value is not None},
        )


class CompletionRequest(GenerationRequest):
    """Body of POST /v1/completions."""

    prompt: str | TokenIds | list[str] | list[TokenIds]
    best_of: int | None = None
    echo: bool | None = False
    "The answer begins with the prompt, and so do its log-probabilities."
    logprobs: Annotated[int | None, told(minimum=0, maximum=20)] = None

    @model_validator(mode="after")
    def best_is_all(self) -> CompletionRequest:
        if self.best_of not in (None, self.n or 1):
            raise RequestRefused(f"best_of: expected n ({self.n or 1}), found {self.best_of}", param="best_of")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        ids = [token for token in self.prompt if isinstance(token, int)]
        if len(ids) == len(self.prompt):
            return [ids]
        return [prompt for prompt in self.prompt if not isinstance(prompt, int)]

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def num_prompt_logprobs(self) -> int | None:
        return self.logprobs if self.echo and self.prompt_logprobs is None else self.prompt_logprobs


class ChatRequest(GenerationRequest):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, told(minimum=0)] = None
    "OpenAI's newer name of max_tokens."
    logprobs: bool | None = False
    top_logprobs: Annotated[int | None, told(minimum=0, maximum=20)] = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = True
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = False
    documents: list[Json] | None = None
    chat_template_kwargs: Json | None = None
    echo: Literal[False] | None = None

    @model_validator(mode="after")
    def tools_fit(self) -> ChatRequest:
        names = [tool.function.name for tool in self.tools or ()]
        choice = self.tool_choice
        if choice not in (None, "none", "auto") and not names:
            raise RequestRefused("tool_choice: there are no tools to choose from", param="tool_choice")
        if isinstance(choice, NamedToolChoice) and choice.function.name not in names:
            raise RequestRefused(
                f"tool_choice: expected one of {names}, found {choice.function.name!r}", param="tool_choice"
            )
        if self.top_logprobs is not None and self.top_logprobs != 0 and not self.logprobs:
            raise RequestRefused("top_logprobs is only allowed with logprobs: true", param="top_logprobs")
        return self

    @property
    def num_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class TokenizeRequest(Strict):
    """Body of POST /tokenize: a prompt or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[Tool] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: Json | None = None
    return_token_strs: bool | None = False

    @model_validator(mode="after")
    def one_of_two(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise RequestRefused("expected either prompt or messages", param="prompt")
        return self


class DetokenizeRequest(Strict):
    """Body of POST /detokenize."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0, lt=2**32)]]
