"""Logs of one application, as its proxy wrote them: sound, or with one thing wrong in its prompts."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["FAULTS", "SOUND", "Shop", "conversation_log", "faulty_log", "token_log"]

Json = dict[str, Any]

_WORDS = [
    f"{first}{second}"
    for first in ("bal", "cor", "del", "fam", "gos", "hin", "jur", "kep", "lom", "mar", "net", "pol", "rud", "sab")
    for second in ("ance", "der", "ent", "ing", "ish", "ment", "ory", "ton")
]


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words))


def _lines(chance: random.Random, lines: int) -> str:
    return "\n".join(f"- {_text(chance, chance.randrange(8, 16))}." for _ in range(lines))


class Shop:
    """What all requests of the application have in common."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.rules = _lines(chance, 30)
        self.tools = [
            {"type": "function", "function": {"name": f"{word}_tool", "description": _text(chance, 25)}}
            for word in chance.sample(_WORDS, 8)
        ]

    def body(self, number: int) -> Json:
        system = f"You are the assistant of a shop. Be brief.\n{self.rules}\nAlways answer in English."
        user = _text(self.chance, self.chance.randrange(20, 90))
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return {"model": "m", "tools": self.tools, "messages": messages}


def _sound(shop: Shop, number: int) -> Json:
    return shop.body(number)


def _prepended(shop: Shop, number: int, value: str) -> Json:
    body = shop.body(number)
    body["tools"] = []
    system = body["messages"][0]
    system["content"] = system["content"].replace("Be brief.", f"{value} Be brief.")
    return body


def _timestamp(shop: Shop, number: int) -> Json:
    moment = datetime.fromtimestamp(1.75e9 + number * 37.0, tz=UTC)
    return _prepended(shop, number, f"It is {moment:%Y-%m-%d %H:%M:%S} now.")


def _uuid(shop: Shop, number: int) -> Json:
    return _prepended(shop, number, f"Request {uuid.UUID(int=shop.chance.getrandbits(128))} follows.")


def _counter(shop: Shop, number: int) -> Json:
    return _prepended(shop, number, f"This is call {1000 + number} today.")


def _name(shop: Shop, number: int) -> Json:
    names = ("Anna Berg", "Bela Nagy", "Carla Rossi", "David Cohen", "Emre Kaya", "Farah Khan", "Goran Petrovic")
    return _prepended(shop, number, f"You talk with {shop.chance.choice(names)} this time.")


def _shuffled_tools(shop: Shop, number: int) -> Json:
    body = shop.body(number)
    body["tools"] = shop.chance.sample(shop.tools, len(shop.tools))
    return body


def _shuffled_lines(shop: Shop, number: int) -> Json:
    body = shop.body(number)
    lines = shop.rules.split("\n")
    mixed = "\n".join(lines[:5] + shop.chance.sample(lines[5:], len(lines) - 5))
    body["messages"][0]["content"] = body["messages"][0]["content"].replace(shop.rules, mixed)
    return body


def _line_ends(shop: Shop, number: int) -> Json:
    body = shop.body(number)
    lines = body["messages"][0]["content"].split("\n")
    body["messages"][0]["content"] = "".join(line + shop.chance.choice(("\n", "\r\n")) for line in lines)
    return body


def _blanks(shop: Shop, number: int) -> Json:
    body = shop.body(number)
    words = body["messages"][0]["content"].split(" ")
    body["messages"][0]["content"] = "".join(word + shop.chance.choice((" ", " ", " ", "  ")) for word in words)
    return body


def _key_order(shop: Shop, number: int) -> Json:
    body = shop.body(number)
    body["tools"] = [
        {"type": "function", "function": dict(shop.chance.sample(sorted(tool["function"].items()), 2))}
        for tool in shop.tools
    ]
    return body


SOUND: dict[str, Callable[[Shop, int], Json]] = {"sound": _sound}

FAULTS: dict[str, tuple[Callable[[Shop, int], Json], str, str]] = {
    "timestamp": (_timestamp, "varying_field", "timestamp-like"),
    "uuid": (_uuid, "varying_field", "UUID-like"),
    "counter": (_counter, "varying_field", "counter-like"),
    "name": (_name, "varying_field", "name-like"),
    "shuffled tools": (_shuffled_tools, "shuffled_list", "tool definitions"),
    "shuffled lines": (_shuffled_lines, "shuffled_list", "lines of the system part"),
    "line ends": (_line_ends, "format", "line ends"),
    "blanks": (_blanks, "format", "blanks within lines"),
    "key order": (_key_order, "format", "keys of tool definitions"),
}
"""Fault -> what makes a request with it, the finding it must give, and a part of what it is said to look like."""


def faulty_log(path: Path, make: Callable[[Shop, int], Json], seed: int, requests: int = 60) -> Path:
    """A log of `requests` independent requests."""
    shop = Shop(random.Random(seed))
    return _write(path, [make(shop, number) for number in range(requests)])


def conversation_log(path: Path, seed: int, *, keep: int | None, conversations: int = 8, turns: int = 14) -> Path:
    """Conversations whose history is sent whole, or its last `keep` messages only."""
    chance = random.Random(seed)
    shop = Shop(chance)
    bodies = []
    for _ in range(conversations):
        history: list[Json] = []
        for _ in range(turns):
            history.append({"role": "user", "content": _text(chance, chance.randrange(30, 60))})
            body = shop.body(0)
            body["messages"][1:] = [dict(message) for message in (history if keep is None else history[-keep:])]
            bodies.append(body)
            history.append({"role": "assistant", "content": _text(chance, chance.randrange(40, 90))})
    return _write(path, bodies)


def token_log(path: Path, seed: int, *, varying: bool, requests: int = 50) -> Path:
    """The bundled engine's log: a common beginning of token ids, with six that vary from the tenth on or without."""
    chance = random.Random(seed)
    common = [chance.randrange(50_000) for _ in range(600)]
    lines = []
    for number in range(requests):
        field = [chance.randrange(50_000) for _ in range(6)] if varying else [1, 2, 3, 4, 5, 6]
        ids = common[:10] + field + common[10:] + [chance.randrange(50_000) for _ in range(80)]
        entry = {"time": 1.7e9 + number, "request_id": str(number), "path": "/v1/completions", "status": 200}
        choice = {"index": 0, "token_ids": [1, 2, 3]}
        lines.append(json.dumps({**entry, "e2e_ms": 100.0, "prompts": [{"token_ids": ids}], "choices": [choice]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def _write(path: Path, bodies: list[Json]) -> Path:
    lines = [
        json.dumps({"timestamp": 1.7e9 + number * 0.7, "request": body, "usage": {"completion_tokens": 20}})
        for number, body in enumerate(bodies)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
