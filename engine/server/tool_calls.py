"""Tool calls: the grammar that forces them, and the parser that finds them in an answer as it comes."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence as ReadOnlyList
from typing import Any, Literal

from engine.detokenizer import held_back
from engine.grammar import WHITESPACE, Grammar
from engine.server.chat_messages import Tool

__all__ = ["ToolCallParser", "tool_grammar"]

Json = dict[str, Any]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\S)')
BLANK_OUTSIDE = re.compile(r'("(?:[^"\\]|\\.)*"?)|\s+')


def tool_grammar(tools: ReadOnlyList[Tool], *, tagged: bool, several: bool) -> Grammar:
    """Calls of `tools` and nothing else: within Hermes' tags where the model was taught them, else as bare JSON."""
    rules = [
        "start: " + ("call+" if several else "call") if tagged else "start: call",
        'call: "<tool_call>\\n" object "\\n</tool_call>" "\\n"?'
        if tagged
        else 'call: object | "[" object (", " object)* "]"'
        if several
        else "call: object",
        "object: " + " | ".join(f"object_{place}" for place in range(len(tools))),
    ]
    for place, tool in enumerate(tools):
        head = f'{{"name": {json.dumps(tool.function.name, ensure_ascii=False)}, "arguments": '
        # A grammar of its own for each, so that `$ref: "#/..."` means the tool's own schema.
        schema = (tool.function.parameters or {"type": "object"}) | {"x-guidance": {"whitespace_pattern": WHITESPACE}}
        rules.append(f'object_{place}: {json.dumps(head, ensure_ascii=False)} arguments_{place} "}}"')
        rules.append(f"arguments_{place}: %json {json.dumps(schema)}")
    return Grammar("lark", "\n".join(rules) + "\n")


class ToolCallParser:
    """Turns text into OpenAI's deltas: `content`, and `tool_calls` whose arguments come as they are written.

    A call stands within Hermes' tags anywhere, or bare (in a list, perhaps) where the answer begins with it.
    """

    def __init__(self, names: ReadOnlyList[str], *, several: bool = True) -> None:
        self.num_calls = 0
        self._names = names
        self._several = several
        self._rest = ""
        "Text that isn't decided yet."
        self._blank = ""
        "Blanks that are content if something follows them, and are dropped around calls."
        self._place: Literal["content", "head", "arguments", "tail"] = "content"
        self._tagged = False
        self._may_be_bare = True
        self._scan = ValueScan()
        self._found: list[Json] = []

    def feed(self, text: str, *, last: bool = False) -> list[Json]:
        """Deltas that `text` completes."""
        self._rest += text
        self._found = []
        step = {"content": self._content, "head": self._head, "arguments": self._arguments, "tail": self._tail}
        while self._rest and step[self._place]():
            pass
        if last and self._rest and self._place in ("content", "head"):
            self._say((OPEN if self._place == "head" and self._tagged else "") + self._rest)
            self._rest = ""
        if last and self._blank and not self.num_calls:
            self._found.append({"content": self._blank})
        return self._found

    def _content(self) -> bool:
        if self._may_be_bare:
            state = self._bare_call()
            if state != "no":
                self._tagged = False
                self._place = "head" if state == "yes" else "content"
                return state == "yes"
            self._may_be_bare = False
        before, tag, after = self._rest.partition(OPEN)
        keep = 0 if tag else held_back(self._rest, (OPEN,))
        self._say(before[: len(before) - keep])
        self._rest = after if tag else before[len(before) - keep :]
        if tag:
            self._tagged, self._place = True, "head"
        return bool(tag)

    def _bare_call(self) -> Literal["yes", "no", "perhaps"]:
        squeezed = BLANK_OUTSIDE.sub(lambda found: found[1] or "", self._rest)
        text = squeezed.removeprefix("[")
        for name in self._names:
            for word in ("arguments", "parameters"):
                head = f'{{"name":{json.dumps(name, ensure_ascii=False)},"{word}":'
                if len(text) > len(head) and text.startswith(head):
                    self._rest = self._rest[self._rest.index("{") :]
                    return "yes"
                if head.startswith(text):
                    return "perhaps"
        return "no"

    def _head(self) -> bool:
        if found := HEAD.match(self._rest):
            self._rest = self._rest[found.end() :]
            self._call(json.loads(f'"{found[1]}"', strict=False))
            self._place, self._scan = "arguments", ValueScan()
            return True
        if not self._tagged or CLOSE not in self._rest:
            return False
        # Complete, and not in the usual order.
        written, _, self._rest = self._rest.partition(CLOSE)
        self._place = "content"
        try:
            call = json.loads(written)
            name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
        except (ValueError, TypeError, KeyError, AttributeError):
            self._say(OPEN + written + CLOSE)
            return True
        self._call(str(name))
        self._argue(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))
        return True

    def _arguments(self) -> bool:
        end = self._scan.end_of(self._rest)
        written, self._rest = self._rest[:end], self._rest[end:]
        self._argue(self._scan.as_object(written))
        if self._scan.over:
            self._place = "tail"
        return self._scan.over

    def _tail(self) -> bool:
        if self._tagged:
            _, tag, after = self._rest.partition(CLOSE)
            self._rest = after if tag else self._rest[-len(CLOSE) :]
            if tag:
                self._place = "content"
            return bool(tag)
        rest = self._rest.lstrip().removeprefix("}").lstrip()
        if rest.startswith((",", "{")):
            self._rest, self._place = rest.removeprefix(","), "head"
            return True
        if rest:
            self._rest = ""  # the end of a list, or chatter after the call
        return False

    def _say(self, text: str) -> None:
        self._blank += text
        if self._blank.strip():
            self._found.append({"content": self._blank})
            self._blank = ""

    def _call(self, name: str) -> None:
        self._blank = ""
        self.num_calls += 1
        call = {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": {"name": name, "arguments": ""}}
        self._add(call)

    def _argue(self, text: str) -> None:
        if text:
            self._add({"function": {"arguments": text}})

    def _add(self, call: Json) -> None:
        if self._several or self.num_calls == 1:
            self._found.append({"tool_calls": [{"index": self.num_calls - 1, **call}]})


class ValueScan:
    """Finds the end of a JSON value that comes in pieces."""

    def __init__(self) -> None:
        self.over = False
        self._depth = 0
        self._in_string = self._escaped = False
        self._is_text: bool | None = None
        "Some models write the arguments as a JSON string of JSON."
        self._kept = ""

    def end_of(self, text: str) -> int:
        """Characters of `text` that belong to the value."""
        if self._is_text is None:
            self._is_text = text[0] == '"'
        for place, character in enumerate(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._in_string = False
                    self.over = self._depth == 0
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                if self._depth == 0:  # a number, true, false or null ends where what holds it does
                    self.over = True
                    return place
                self._depth -= 1
                self.over = self._depth == 0
            if self.over:
                return place + 1
        return len(text)

    def as_object(self, written: str) -> str:
        """`written` as the client is to see it."""
        if not self._is_text:
            return written
        self._kept += written
        return str(json.loads(self._kept, strict=False)) if self.over else ""
