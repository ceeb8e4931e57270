"""Own: a user's own evals, read from beside the deployment before anything is launched, and scored."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tools.errors import UserError
from tools.evals.asker import CHAT, COMPLETIONS, Asker
from tools.evals.declared import Scored
from tools.evals.item import Asked, Item, answered, as_answer, ask_items
from tools.evals.json_schema import checked_schema
from tools.evals.python_scorer import PythonScorer, ScorerFailed, require_isolation
from tools.evals.results import TaskResult

__all__ = ["OwnSet", "read_own"]

_NEEDS = {"exact": "expected", "regex": "pattern", "json_schema": "schema", "python": None}


@dataclass(frozen=True)
class OwnSet:
    """One eval of the user's: its items, and the digests of all files that it rests on."""

    declared: Scored
    items: tuple[Item, ...]
    files: tuple[tuple[str, str], ...]
    "Name and sha256 of the data, and of the code that scores."
    scorer: PythonScorer | None = None

    def to_json(self) -> list[Any]:
        return [self.declared.model_dump(mode="json", by_alias=True), [list(file) for file in self.files]]

    async def ask(self, asker: Asker) -> list[Asked]:
        """What the server says to each item."""
        return await ask_items(asker, self.items)

    def score(self, asked: Sequence[Asked]) -> TaskResult:
        """The answers with their scores. Where a user's function gives none, every answer says so and why."""
        if self.scorer is None:
            return TaskResult({each.item.id: answered(each) for each in asked})
        heard = [each for each in asked if each.said is not None]
        try:
            scores = self.scorer.scores([(each.item.expected, each.said.text) for each in heard if each.said])
            error = ""
        except ScorerFailed as failure:
            scores, error = [0.0] * len(heard), str(failure)
        given = {each.item.id: as_answer(each, score, error) for each, score in zip(heard, scores, strict=True)}
        return TaskResult({each.item.id: given.get(each.item.id) or as_answer(each, 0.0) for each in asked})


def read_own(declared: Scored, folder: Path) -> OwnSet:
    """The eval that `declared` names, its files beside or below `folder`.

    Raises:
        UserError: no such file, an item that lacks what its scorer needs, a scorer that can't be run here.
    """
    data = _bytes(folder / declared.data, declared.name)
    items = tuple(
        _item(number, line, declared, folder / declared.data)
        for number, line in enumerate(data.splitlines(), 1)
        if line.strip()
    )
    if not items:
        raise UserError(f"evals: {declared.name}: expected items in {folder / declared.data}, found none")
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise UserError(
            f"evals: {declared.name}: {folder / declared.data}: expected an id of its own for each item, found "
            f"{twice[0]!r} more than once; an item without an id is called by the number of its line"
        )
    files = [(declared.data, hashlib.sha256(data).hexdigest())]
    scorer = None
    if declared.entry is not None:
        name, _, function = declared.entry.partition(":")
        code = _bytes(folder / name, declared.name)
        files.append((name, hashlib.sha256(code).hexdigest()))
        limits = declared.time_limit_s, declared.memory_limit_bytes
        scorer = PythonScorer((folder / name).resolve(), _text(code, name, declared.name), function, *limits)
        require_isolation()
    return OwnSet(declared, items, tuple(files), scorer)


def _bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"evals: {name}: expected a file at {path}, found {error.strerror}") from None


def _text(code: bytes, file: str, name: str) -> str:
    try:
        return code.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"evals: {name}: expected Python in UTF-8 in {file}, found {error}") from None


def _item(number: int, line: bytes, declared: Scored, path: Path) -> Item:
    where = f"evals: {declared.name}: {path} line {number}"
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UserError(f"{where}: expected a JSON object, found {error}") from None
    if not isinstance(raw, dict) or ("prompt" in raw) == ("messages" in raw):
        raise UserError(f"{where}: expected an object with either prompt or messages, found {str(raw)[:100]}")
    body = {
        **({"prompt": raw["prompt"]} if "prompt" in raw else {"messages": raw["messages"]}),
        "max_tokens": declared.max_tokens,
        "temperature": 0,
    }
    path_asked = COMPLETIONS if "prompt" in raw else CHAT
    return Item(str(raw.get("id", number)), path_asked, body, declared.scorer, _expected(raw, declared, where))


def _expected(raw: dict[str, Any], declared: Scored, where: str) -> Any:
    need = _NEEDS[declared.scorer]
    if need is None:
        return raw
    value = declared.json_schema if need == "schema" and "schema" not in raw else raw.get(need)
    try:
        match declared.scorer:
            case "json_schema":
                return checked_schema(value)
            case "regex" if isinstance(value, str):
                re.compile(value)
                return value
            case "exact" if isinstance(value, str) or (
                isinstance(value, list) and value and all(isinstance(each, str) for each in value)
            ):
                return value.strip() if isinstance(value, str) else [each.strip() for each in value]
    except (ValueError, re.error) as error:
        raise UserError(f"{where}: {need}: {error}") from None
    raise UserError(f"{where}: expected {need} as the scorer {declared.scorer} needs it, found {value!r}")
