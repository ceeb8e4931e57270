"""What goes back, as schemas: for /openapi.json, and so for everyone who checks us against it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from engine.server.chat_messages import Strict, ToolCall

__all__ = [
    "ChatCompletion",
    "ChatCompletionChunk",
    "Completion",
    "Detokenized",
    "Failure",
    "Load",
    "Model",
    "Models",
    "Tokenized",
    "Version",
]

Json = dict[str, Any]
Finish = Literal["stop", "length", "tool_calls"]
AlternativesById = list[Json | None]


class PromptDetails(Strict):
    cached_tokens: int


class Usage(Strict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class CompletionLogprobs(Strict):
    text_offset: list[int]
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(Strict):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Finish | None
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: AlternativesById | None = None


class Envelope(Strict):
    id: str
    created: int
    model: str


class Completion(Envelope):
    object: Literal["text_completion"]
    choices: list[CompletionChoice]
    usage: Usage | None = None


class NamedLogprob(Strict):
    token: str
    logprob: float
    bytes_: list[int] = Field(alias="bytes")


class TokenLogprob(NamedLogprob):
    top_logprobs: list[NamedLogprob]


class ChatLogprobs(Strict):
    content: list[TokenLogprob]
    refusal: None


class AssistantMessage(Strict):
    role: str
    content: str | None
    tool_calls: list[ToolCall] | None = None


class ChatChoice(Strict):
    index: int
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None


class WholeChoice(ChatChoice):
    message: AssistantMessage


class StreamedChoice(ChatChoice):
    delta: Json


class ChatAnswer(Envelope):
    usage: Usage | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: AlternativesById | None = None


class ChatCompletion(ChatAnswer):
    object: Literal["chat.completion"]
    choices: list[WholeChoice]


class ChatCompletionChunk(ChatAnswer):
    object: Literal["chat.completion.chunk"]
    choices: list[StreamedChoice]


class Model(Strict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class Models(Strict):
    object: Literal["list"]
    data: list[Model]


class Tokenized(Strict):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Detokenized(Strict):
    prompt: str


class Version(Strict):
    version: str


class Load(Strict):
    server_load: int


class Trouble(Strict):
    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str


class Failure(Strict):
    """OpenAI's error object."""

    error: Trouble
