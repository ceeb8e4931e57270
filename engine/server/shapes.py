"""Shapes: the JSON that goes back, chunk by chunk or whole, in OpenAI's form with vLLM's token ids."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["AnswerShape", "error_body", "usage"]

Json = dict[str, Any]


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Json:
    """Counts in tokens; `cached_tokens` of the prompt came from the prefix cache."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def error_body(sentence: str, *, status: int, code: str, param: str | None) -> Json:
    """OpenAI's error object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": param, "code": code}}


@dataclass(slots=True)
class AnswerShape:
    """Words one answer for one of the two endpoints."""

    endpoint: Literal["chat", "completions"]
    model: str
    prompt_ids: ReadOnlyList[int]
    return_token_ids: bool
    request_id: str = ""
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        prefix = "chatcmpl" if self.endpoint == "chat" else "cmpl"
        self.request_id = f"{prefix}-{uuid.uuid4().hex}"

    def opening(self) -> Json:
        """A chat's first chunk: the role, and no token."""
        return self._chunk({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})

    def chunk(self, text: str, token_ids: ReadOnlyList[int], finish_reason: str | None) -> Json:
        """One step's worth of a stream."""
        body: Json = {"delta": {"content": text}} if self.endpoint == "chat" else {"text": text}
        if self.return_token_ids:
            body["token_ids"] = list(token_ids)
        return self._chunk({**body, "finish_reason": finish_reason})

    def with_prompt_ids(self, chunk: Json) -> Json:
        """`chunk` as the first of its stream."""
        if not self.return_token_ids:
            return chunk
        if self.endpoint == "chat":
            return {**chunk, "prompt_token_ids": list(self.prompt_ids)}
        choice = {**chunk["choices"][0], "prompt_token_ids": list(self.prompt_ids)}
        return {**chunk, "choices": [choice]}

    def closing(self, counts: Json) -> Json:
        """The chunk without choices that carries the usage."""
        return {**self._envelope(streamed=True), "choices": [], "usage": counts}

    def whole(self, text: str, token_ids: ReadOnlyList[int], finish_reason: str, counts: Json) -> Json:
        """The answer to a request that doesn't stream."""
        body: Json = {"message": {"role": "assistant", "content": text}} if self.endpoint == "chat" else {"text": text}
        if self.return_token_ids:
            body["token_ids"] = list(token_ids)
        choice = {"index": 0, **body, "logprobs": None, "finish_reason": finish_reason}
        answer = {**self._envelope(streamed=False), "choices": [choice], "usage": counts}
        return self.with_prompt_ids(answer)

    def _chunk(self, body: Json) -> Json:
        choice = {"index": 0, **body, "logprobs": None}
        return {**self._envelope(streamed=True), "choices": [choice]}

    def _envelope(self, *, streamed: bool) -> Json:
        kind = "text_completion" if self.endpoint == "completions" else "chat.completion"
        if streamed and self.endpoint == "chat":
            kind = "chat.completion.chunk"
        return {"id": self.request_id, "object": kind, "created": self.created, "model": self.model}
