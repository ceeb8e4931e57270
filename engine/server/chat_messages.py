"""Messages and tools of a chat, and the form in which chat templates take them."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["Message", "NamedToolChoice", "Strict", "Tool", "for_template"]

Json = dict[str, Any]


class Strict(BaseModel):
    """Unknown keys, numbers as text and numbers that aren't finite are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TextPart(Strict):
    type: Literal["text"]
    text: str


class CalledFunction(Strict):
    name: str
    arguments: str = "{}"


class ToolCall(Strict):
    """A call that the assistant made in an earlier turn."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class Message(Strict):
    """One turn. Content is text, or parts that are all text."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    # What the openai client repeats when an answer is sent back as it came.
    refusal: str | None = None
    annotations: list[Any] | None = None
    audio: None = None
    function_call: None = None

    def plain(self) -> Json:
        """As chat templates take it. `developer` is OpenAI's newer word for `system`."""
        plain = self.model_dump(
            exclude_none=True, include={"role", "content", "name", "tool_call_id", "reasoning", "reasoning_content"}
        )
        if isinstance(self.content, list):
            plain["content"] = "".join(part.text for part in self.content)
        if self.role == "developer":
            plain["role"] = "system"
        if self.tool_calls:
            plain["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": arguments(call)},
                }
                for call in self.tool_calls
            ]
        return plain


class Function(Strict):
    name: str
    description: str | None = None
    parameters: Json | None = None
    "JSON schema of the arguments, an object."
    strict: bool | None = None


class Tool(Strict):
    type: Literal["function"]
    function: Function

    def plain(self) -> Json:
        return {"type": "function", "function": self.function.model_dump(exclude_none=True, exclude={"strict"})}


class FunctionName(Strict):
    name: str


class NamedToolChoice(Strict):
    type: Literal["function"]
    function: FunctionName


def arguments(call: ToolCall) -> Any:
    """What templates put in as JSON must not be JSON already."""
    try:
        return json.loads(call.function.arguments)
    except ValueError:
        return call.function.arguments


def for_template(messages: list[Message], tools: list[Tool], template: str) -> tuple[list[Json], list[Json] | None]:
    """Messages and tools for `template`. One that knows no tools is told about them in words, in Hermes' form."""
    plain = [message.plain() for message in messages]
    listed = [tool.plain() for tool in tools]
    if "tools" not in template and listed:
        plain = with_system_text(
            plain, TOOLS_PROMPT + "".join(f"{json.dumps(tool, ensure_ascii=False)}\n" for tool in listed)
        )
    if "tool_calls" not in template:
        plain = [in_words(message) for message in plain]
    return plain, listed or None


TOOLS_PROMPT = """You may call these functions. To call one, answer only with \
{"name": <function name>, "arguments": <object with its arguments>}
"""


def with_system_text(messages: list[Json], text: str) -> list[Json]:
    if messages and messages[0]["role"] == "system":
        return [messages[0] | {"content": f"{messages[0].get('content', '')}\n\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def in_words(message: Json) -> Json:
    """A call or a tool's answer as text, for a template that has no place for them."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message.get('content', '')}\n</tool_response>"}
    calls = [call["function"] for call in message.get("tool_calls", ())]
    said = [json.dumps(call, ensure_ascii=False) for call in calls]
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    return kept | {"content": "\n".join(filter(None, [message.get("content"), *said]))}
