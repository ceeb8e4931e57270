"""Tools: is a call that must be made made, with arguments that keep the tool's schema?"""

from __future__ import annotations

from typing import Any

from tools.evals.item import Item, TaskSet, chat

__all__ = ["TOOLS"]

_TOOLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("set_light", "Turn the light on.", {"on": {"type": "boolean"}}),
    ("get_weather", "What is the weather in Oslo?", {"city": {"enum": ["Oslo", "Rome"]}}),
)


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def _item(name: str, text: str, properties: dict[str, Any], choice: Any) -> Item:
    tool = _tool(name, properties)
    expected = {"name": name, "schema": tool["function"]["parameters"]}
    item_id = name if choice == "required" else f"{name}-named"
    return chat(item_id, text, "tool_call", expected, max_tokens=64, tools=[tool], tool_choice=choice)


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


TOOLS = TaskSet("tools", (*(_item(*row, "required") for row in _TOOLS), _item(*_TOOLS[0], _named(_TOOLS[0][0]))))
