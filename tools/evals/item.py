"""Item: one question of a task set, what counts as an answer, and how it is put to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.evals.asker import CHAT, COMPLETIONS, Asker, NoAnswer, choice
from tools.evals.results import Answer
from tools.evals.said import Said
from tools.evals.scorers import SCORERS

__all__ = ["KEPT_TEXT", "Asked", "Item", "TaskSet", "answered", "ask_items", "chat", "completion"]

KEPT_TEXT = 2000
"Characters of an answer that are kept; a scorer sees it whole."


@dataclass(frozen=True)
class Item:
    """A question. `body` is all of the request but the model's name: JSON data, like `expected`."""

    id: str
    path: str
    body: Mapping[str, Any]
    scorer: str
    "A name of `SCORERS`, or `python`: then somebody else scores."
    expected: Any

    def to_json(self) -> list[Any]:
        return [self.id, self.path, dict(self.body), self.scorer, self.expected]


@dataclass(frozen=True)
class TaskSet:
    """Items that are scored together."""

    name: str
    items: tuple[Item, ...]

    def to_json(self) -> list[Any]:
        return [self.name, [item.to_json() for item in self.items]]


@dataclass(frozen=True, slots=True)
class Asked:
    """An item and what came of it: `said`, or else an `error`."""

    item: Item
    said: Said | None = None
    error: str = ""
    prompt_tokens: int | None = field(default=None)


def chat(item_id: str, text: str, scorer: str, expected: Any, *, max_tokens: int, **more: Any) -> Item:
    """An item put as the one message of a chat, answered greedily."""
    messages = [{"role": "user", "content": text}]
    return Item(item_id, CHAT, _greedy({"messages": messages}, max_tokens, more), scorer, expected)


def completion(item_id: str, text: str, scorer: str, expected: Any, *, max_tokens: int, **more: Any) -> Item:
    """An item put as a text to go on with, answered greedily."""
    return Item(item_id, COMPLETIONS, _greedy({"prompt": text}, max_tokens, more), scorer, expected)


def _greedy(body: dict[str, Any], max_tokens: int, more: dict[str, Any]) -> dict[str, Any]:
    return {**body, "max_tokens": max_tokens, "temperature": 0, **more}


async def ask_items(asker: Asker, items: Sequence[Item]) -> list[Asked]:
    """What the server said to each. A question that it refused is told as such and isn't an exception.

    Raises:
        LaunchFailed: kind `unreachable`; the server is gone.
    """
    return await asker.all(_ask(asker, item) for item in items)


async def _ask(asker: Asker, item: Item) -> Asked:
    try:
        body = await asker.ask(item.path, item.body)
        said = Said.read(choice(body))
    except NoAnswer as fault:
        return Asked(item, error=str(fault))
    usage = body.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return Asked(item, said, prompt_tokens=counted if type(counted) is int else None)


def answered(asked: Asked) -> Answer:
    """The answer, scored by the item's own scorer."""
    if asked.said is None:
        return Answer(0.0, "", error=asked.error)
    score = SCORERS[asked.item.scorer](asked.said, asked.item.expected)
    return as_answer(asked, score)


def as_answer(asked: Asked, score: float, unscored: str = "") -> Answer:
    """The answer with a score from elsewhere, or with why it has none."""
    said = asked.said
    if said is None:
        return Answer(0.0, "", error=asked.error)
    return Answer(score, said.shown[:KEPT_TEXT], said.finish_reason, asked.prompt_tokens, "", unscored)
