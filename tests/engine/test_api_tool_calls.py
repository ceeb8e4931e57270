"""Tool calls are found however the text is cut, and what their grammar allows is always found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.grammar_matcher import GrammarMatchers
from engine.server.chat_messages import Tool
from engine.server.tool_calls import ToolCallParser, tool_grammar
from engine.tokenizer import ModelTokenizer

NAMES = ["weather", "wea", 'od"d']
WEATHER = '{"name": "weather", "arguments": {"place": "Zü}\\"rich", "days": [1, {"a": 2}]}}'
ARGUMENTS = {"place": 'Zü}"rich', "days": [1, {"a": 2}]}


def joined(deltas: list[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """Content, and (name, arguments) of each call, put together as clients do it."""
    content, calls = "", []
    for delta in deltas:
        content += delta.get("content", "")
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                assert call["index"] == len(calls)
                calls.append([call["function"]["name"], ""])
            calls[call["index"]][1] += call["function"]["arguments"]
    return content, [(name, arguments) for name, arguments in calls]


CASES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("Hello <b>you</b> [x] {y}", "Hello <b>you</b> [x] {y}", []),
    ('  {"name": "nobody", "arguments": {}}', '  {"name": "nobody", "arguments": {}}', []),
    ('{"weather": 1}', '{"weather": 1}', []),
    (WEATHER, "", [("weather", ARGUMENTS)]),
    (f"\n [ {WEATHER} , {WEATHER}\n]\n", "", [("weather", ARGUMENTS)] * 2),
    (f"{WEATHER}\n{WEATHER}", "", [("weather", ARGUMENTS)] * 2),
    (f"I look.\n<tool_call>\n{WEATHER}\n</tool_call>\n", "I look.", [("weather", ARGUMENTS)]),
    (
        f"<tool_call>{WEATHER}</tool_call>\n<tool_call>{WEATHER}</tool_call> Done.",
        " Done.",
        [("weather", ARGUMENTS)] * 2,
    ),
    ('<tool_call>{"arguments": {"a": 1}, "name": "wea"}</tool_call>', "", [("wea", {"a": 1})]),
    ('<tool_call>{"name": "wea", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [("wea", {"a": 1})]),
    ('{"name" : "od\\"d","parameters":\n{}}', "", [('od"d', {})]),
    ('<tool_call>{"name": "wea", "arguments": null}</tool_call>', "", [("wea", None)]),
    ("<tool_call>not JSON</tool_call>", "<tool_call>not JSON</tool_call>", []),
    ("<tool_call>never ends", "<tool_call>never ends", []),
    ("a <tool_ca", "a <tool_ca", []),
    (" \n ", " \n ", []),
    ("Yes. ", "Yes. ", []),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "content", "calls"), CASES, ids=[case[0][:30] for case in CASES])
def test_calls_are_found_however_the_text_is_cut(text: str, content: str, calls: list[tuple[str, Any]]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    @example(list(range(len(text))))
    def check(cuts: list[int]) -> None:
        parser = ToolCallParser(NAMES)
        deltas = []
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            deltas += parser.feed(text[start:end])
        deltas += parser.feed("", last=True)
        found_content, found = joined(deltas)
        assert found_content.rstrip("\n") == content
        assert [(name, json.loads(arguments)) for name, arguments in found] == calls
        assert parser.num_calls == len(calls)

    check()


def test_arguments_come_as_they_are_written() -> None:
    parser = ToolCallParser(NAMES)
    deltas = [parser.feed(character) for character in WEATHER]
    assert sum(map(bool, deltas)) > 20, "the arguments came at once"


def test_only_one_call_where_only_one_is_wanted() -> None:
    parser = ToolCallParser(NAMES, several=False)
    assert joined(parser.feed(f"[{WEATHER}, {WEATHER}]", last=True)) == joined(ToolCallParser(NAMES).feed(WEATHER))


TOOLS = [
    Tool.model_validate({"type": "function", "function": {"name": 'od"d'}}),
    Tool.model_validate(
        {
            "type": "function",
            "function": {
                "name": "weather",
                "parameters": {
                    "type": "object",
                    "properties": {"place": {"$ref": "#/$defs/place"}},
                    "required": ["place"],
                    "additionalProperties": False,
                    "$defs": {"place": {"enum": ["Bern", "Zürich"]}},
                },
            },
        }
    ),
]


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_what_the_grammar_allows_is_found(tiny_model: Path, tagged: bool, several: bool) -> None:
    tokenizer, matchers = ModelTokenizer(tiny_model), GrammarMatchers(tiny_model, 512, [2])
    generator = torch.Generator().manual_seed(0)
    counts = set()
    for _ in range(12):
        matchers.start("r", tool_grammar(TOOLS[1:], tagged=tagged, several=several))
        ids: list[int] = []
        while len(ids) < 400:
            logits = torch.randn(1, 512, generator=generator)
            matchers.apply(logits, ["r"])
            token = int(logits.argmax())
            if token == 2:
                break
            ids.append(token)
            matchers.accept("r", token)
        text = tokenizer.decode(ids)
        content, calls = joined(ToolCallParser(["weather"], several=several).feed(text, last=True))
        assert content == ""
        counts.add(len(calls))
        for name, arguments in calls:
            assert name == "weather"
            assert json.loads(arguments)["place"] in ("Bern", "Zürich")
    assert 0 not in counts
    assert (max(counts) > 1) == several


def test_every_tool_can_be_called() -> None:
    rules = tool_grammar(TOOLS, tagged=False, several=False)
    rules.check()
    assert 'od\\\\\\"d' in rules.source
