"""ChatTemplate: a conversation in the model's own format, rendered as transformers renders it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence as ReadOnlyList
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import RequestRefused, StartRefused

__all__ = ["ChatTemplate"]

Json = dict[str, Any]
CONTINUE_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names a message's reasoning goes by; templates read the first, some the second."""


class ChatTemplate:
    """The template of a model directory, or the one it keeps for requests with tools."""

    def __init__(self, sources: Mapping[str, str], special_tokens: Mapping[str, str]) -> None:
        """`sources` by name: `default`, perhaps `tool_use`. Raises: StartRefused for one that is no template."""
        self.sources = dict(sources)
        self._special_tokens = dict(special_tokens)
        environment = template_environment()
        try:
            self._templates = {name: environment.from_string(source) for name, source in self.sources.items()}
        except jinja2.TemplateSyntaxError as error:
            raise StartRefused("bad_config", f"the model's chat template can't be read: {error}") from error

    @classmethod
    def load(cls, directory: Path, config: Json, special_tokens: Mapping[str, str]) -> ChatTemplate:
        """chat_template.jinja and its like if there are any, else what stands in tokenizer_config.json."""
        sources = {
            path.stem: path.read_text(encoding="utf-8") for path in directory.glob("additional_chat_templates/*.jinja")
        }
        if (directory / "chat_template.jinja").is_file():
            sources["default"] = (directory / "chat_template.jinja").read_text(encoding="utf-8")
        configured = config.get("chat_template")
        if not sources and configured:
            one = isinstance(configured, str)
            sources = {"default": configured} if one else {each["name"]: each["template"] for each in configured}
        return cls(sources, special_tokens)

    def source(self, *, with_tools: bool) -> str | None:
        """What is rendered for a request with or without tools; None where the model has no template."""
        name = self._name(with_tools)
        return None if name is None else self.sources[name]

    def render(
        self,
        messages: ReadOnlyList[Mapping[str, Any]],
        *,
        tools: ReadOnlyList[Json] | None = None,
        documents: ReadOnlyList[Json] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Text of the conversation, up to where the assistant begins to speak, or goes on.

        Raises:
            RequestRefused: the model has no chat template, or the template refuses the messages.
        """
        name = self._name(tools is not None)
        if name is None:
            raise RequestRefused("the model has no chat template; use /v1/completions", param="messages")
        chat = [with_reasoning(message) for message in messages]
        if continue_final_message:
            if not isinstance(chat[-1].get("content"), str):
                raise RequestRefused("continue_final_message: the last message has no text", param="messages")
            chat[-1]["content"] += CONTINUE_TAG
        given = {**self._special_tokens, **(variables or {})}
        given |= {
            "messages": chat,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            text = self._templates[name].render(given)
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
            raise RequestRefused(
                f"the model's chat template refuses the messages: {error}", param="messages"
            ) from error
        return up_to_tag(text) if continue_final_message else text

    def _name(self, with_tools: bool) -> str | None:
        if with_tools and "tool_use" in self.sources:
            return "tool_use"
        return "default" if "default" in self.sources else None


def with_reasoning(message: Mapping[str, Any]) -> Json:
    """A copy without empty fields, and with its reasoning under the names that templates know."""
    kept = {key: value for key, value in message.items() if value is not None}
    reasoning = next((kept[name] for name in REASONING if name in kept), None)
    return kept if reasoning is None else {"thinking": reasoning, **kept, "reasoning_content": reasoning}


def up_to_tag(text: str) -> str:
    if CONTINUE_TAG.strip() not in text:
        raise RequestRefused("continue_final_message: the chat template leaves the last message out", param="messages")
    place = text.rindex(CONTINUE_TAG.strip())
    # A template that trims its messages has trimmed the tag's own blank too.
    return text[:place] if text[place:].startswith(CONTINUE_TAG) else text[:place].rstrip()


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what the assistant said, for training; here it only has to be understood."""

    tags = {"generation"}  # noqa: RUF012 - as the library declares it

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: jinja2.runtime.Macro) -> str:
        return caller()


def template_environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Jinja's own escapes HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return environment
