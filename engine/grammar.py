"""Grammar: what an answer must look like, as a JSON schema, a regular expression, a choice or Lark rules."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Literal

from engine.errors import RequestRefused

__all__ = ["Grammar", "GrammarKind"]

GrammarKind = Literal["json_object", "json_schema", "regex", "choice", "lark"]

WHITESPACE = r"[\x20\x0A\x0D\x09]{0,20}"
"""Between JSON tokens. Bounded: a small model that may go on with blanks for ever will."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """One grammar; `source` is a JSON schema, a regex, a JSON list of strings or Lark rules, as `kind` says."""

    kind: GrammarKind
    source: str = ""

    def compiled(self) -> str:
        """The grammar in the library's own form."""
        from llguidance import LLMatcher  # takes 0.1 s, and most servers are never asked for a grammar

        match self.kind:
            case "json_object":
                return self._json_schema('{"type": "object"}')
            case "json_schema":
                return self._json_schema(self.source)
            case "regex":
                return LLMatcher.grammar_from_regex(self.source)
            case "choice":
                texts = (json.dumps(text, ensure_ascii=False) for text in json.loads(self.source))
                return LLMatcher.grammar_from_lark("start: " + " | ".join(texts))
            case "lark":
                return LLMatcher.grammar_from_lark(self.source)

    def check(self) -> None:
        """Raises: RequestRefused with the library's message, where it can't be compiled."""
        complaint = complaint_about(self)
        if complaint:
            raise RequestRefused(f"the grammar ({self.kind}) can't be used: {complaint}", code="invalid_grammar")

    def _json_schema(self, schema: str) -> str:
        from llguidance import LLMatcher

        return LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": WHITESPACE})


@functools.lru_cache(256)
def complaint_about(grammar: Grammar) -> str:
    """What the library has to say against `grammar`, empty if nothing. Clients send the same one again and again."""
    from llguidance import LLMatcher

    try:
        compiled = grammar.compiled()
    except ValueError as error:  # a schema that is no JSON object
        return str(error)
    failed, messages = LLMatcher.validate_grammar_with_warnings(compiled)
    return messages[0].strip() if failed else ""
