"""complete(): one JSON object from an OpenAI-compatible endpoint, whatever the server at the other end sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.completion import Completion, estimated_tokens, read_completion
from agents.completion_error import CompletionError, Refused, Transport
from agents.llm_endpoint import Declined, LlmEndpoint
from agents.proposer import Message
from agents.usage import Usage
from agents.wire import Wire

__all__ = ["complete"]


def complete(
    endpoint: LlmEndpoint,
    *,
    model: str,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    max_tokens: int,
    wire: Wire | None = None,
    temperature: float | None = None,
) -> Completion:
    """One JSON object that answers `messages`, shaped by `schema` as far as the endpoint can.

    An endpoint that says it can't is asked again with less: json_schema, then json_object, then neither. Each step is
    taken once, so a call ends. The shape is not checked against the schema here; the caller knows what its fields mean.
    Usage counts every HTTP request, the refused and the repeated ones too.

    Raises:
        Transport, Refused, Truncated, CutPrompt, Malformed: as they say.
    """
    wire, earlier = wire or Wire(), Usage(calls=1)
    prompt_chars = sum(len(message["content"]) for message in messages)
    while True:
        try:
            answered = endpoint.post(
                {"model": model, **wire.parameters(messages, schema, max_tokens, temperature)},
                estimated_tokens(prompt_chars),
            )
            break
        except Declined as error:
            earlier += Usage(requests=error.requests)
            less = wire.less(error.status, str(error))
            if less is None:
                kind = Transport if error.passing else Refused
                raise kind(str(error), usage=earlier) from None
            wire = less
        except Transport as error:
            error.usage = earlier + error.usage
            raise
    earlier += Usage(requests=answered.requests - 1)
    try:
        completion = read_completion(answered.body, prompt_chars, wire)
    except CompletionError as error:
        error.wire, error.usage = wire, earlier + error.usage
        raise
    return replace(completion, usage=earlier + completion.usage)
