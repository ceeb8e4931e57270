"""What form an answer must have: OpenAI's response_format and the names vLLM has had for the same."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from engine.errors import RequestRefused
from engine.grammar import Grammar
from engine.server.chat_messages import Strict

__all__ = ["AnswerFormat"]

Json = dict[str, Any]


class NamedSchema(Strict):
    name: str = ""
    description: str | None = None
    schema_: Json | bool | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class StructuredOutputs(Strict):
    json_: Json | str | None = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


class AnswerFormat(Strict):
    """The fields of a request that say it. At most one may ask for something."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Json | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None

    def asked_grammar(self) -> Grammar | None:
        """The grammar of what was asked for.

        Raises:
            RequestRefused: two that are asked for at once, or one that can't be used.
        """
        outputs = self.structured_outputs or StructuredOutputs()
        grammars: list[Grammar | None] = [self._of_response_format()]
        grammars += [schema_grammar(schema) for schema in (self.guided_json, outputs.json_) if schema is not None]
        grammars += [Grammar("regex", regex) for regex in (self.guided_regex, outputs.regex) if regex is not None]
        grammars += [Grammar("lark", rules) for rules in (self.guided_grammar, outputs.grammar) if rules is not None]
        grammars += [choice_grammar(texts) for texts in (self.guided_choice, outputs.choice) if texts is not None]
        grammars += [Grammar("json_object")] if outputs.json_object else []
        asked = [grammar for grammar in grammars if grammar is not None]
        if len(asked) > 1:
            raise RequestRefused("the answer is to follow several grammars; give one", param="response_format")
        return asked[0] if asked else None

    def _of_response_format(self) -> Grammar | None:
        match self.response_format:
            case ResponseFormat(type="json_object"):
                return Grammar("json_object")
            case ResponseFormat(type="json_schema", json_schema=named):
                if named is None or named.schema_ is None:
                    raise RequestRefused("response_format: json_schema.schema is missing", param="response_format")
                return schema_grammar(named.schema_)
            case _:
                return None


def schema_grammar(schema: Json | str | bool) -> Grammar:
    return Grammar("json_schema", schema if isinstance(schema, str) else json.dumps(schema))


def choice_grammar(texts: list[str]) -> Grammar:
    if not all(texts) or not texts:
        raise RequestRefused("choice: expected texts, none of them empty", param="guided_choice")
    return Grammar("choice", json.dumps(texts))
