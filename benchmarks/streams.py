"""A small closed-loop client for what `vllm bench serve` can't send: text, chats, answers broken off, token ids."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.peers import Server, Unmeasurable

WORDS = (
    *("river", "engine", "morning", "answer", "window", "paper", "garden", "silver", "question", "market", "harbour"),
    *("music", "number", "summer", "letter", "winter", "stone", "kitchen", "bridge", "teacher", "forest", "signal"),
    *("yellow", "corner", "island", "mountain", "simple", "water", "history", "machine"),
)


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str | Sequence[int] | Sequence[Mapping[str, str]]
    "Text or token ids for /v1/completions, messages for /v1/chat/completions."
    max_tokens: int
    more: Mapping[str, Any] = field(default_factory=dict)
    leave_after: int | None = None
    "Hang up once this many tokens have come."

    @property
    def is_chat(self) -> bool:
        return not isinstance(self.prompt, str) and isinstance(self.prompt[0], Mapping)


@dataclass(slots=True)
class Answer:
    sent_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    num_tokens: int = 0
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    left: bool = False

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.sent_s


async def ask(session: aiohttp.ClientSession, server: Server, question: Question) -> Answer:
    """Stream one answer; its tokens are counted by the server's usage where it sends any."""
    body: dict[str, Any] = {"model": server.name, "stream": True, "max_tokens": question.max_tokens, "temperature": 0}
    body["messages" if question.is_chat else "prompt"] = question.prompt
    body |= question.more
    answer, chunks = Answer(sent_s=time.monotonic()), 0
    path = "/v1/chat/completions" if question.is_chat else "/v1/completions"
    async with session.post(server.url + path, json=body) as response:
        if response.status != 200:
            raise Unmeasurable(f"{server.kind} answered {response.status}: {(await response.text())[:200]}")
        async for line in response.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise Unmeasurable(f"{server.kind} broke off: {event['error']}")
            if event.get("usage"):
                answer.num_tokens = event["usage"]["completion_tokens"]
            for choice in event["choices"]:
                text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
                ids = choice.get("token_ids") or []
                if text or ids:
                    answer.last_token_s = time.monotonic()
                    answer.first_token_s = answer.first_token_s or answer.last_token_s
                    answer.text += text
                    answer.token_ids += ids
                    chunks += 1
            if question.leave_after is not None and chunks >= question.leave_after:
                answer.left = True
                break
    if not answer.first_token_s and question.max_tokens:
        raise Unmeasurable(f"{server.kind} answered without a token")
    return answer


async def _ask_all(
    server: Server, questions: Sequence[Question], concurrency: int, timeout_s: float
) -> tuple[list[Answer], float]:
    answers: list[Answer] = [Answer()] * len(questions)
    left = iter(enumerate(questions))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s)) as session:

        async def worker() -> None:
            for index, question in left:
                answers[index] = await ask(session, server, question)

        started_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
        return answers, time.monotonic() - started_s


def ask_all(
    server: Server, questions: Sequence[Question], *, concurrency: int, timeout_s: float
) -> tuple[list[Answer], float]:
    """Answers in order, `concurrency` at a time, and the seconds it took.

    Raises:
        Unmeasurable: a refusal, a broken connection, or more than `timeout_s` for one answer.
    """
    try:
        return asyncio.run(_ask_all(server, questions, concurrency, timeout_s))
    except BaseExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, Unmeasurable | aiohttp.ClientError | TimeoutError):
            raise Unmeasurable(f"{server.kind}: {type(first).__name__}: {first}") from first
        raise


def text_prompts(model: Path, count: int, *, tokens: int, seed: int) -> list[str]:
    """Different texts of about `tokens` tokens each, by the model's own tokenizer."""
    from tokenizers import Tokenizer

    tokenizer, chance = Tokenizer.from_file(str(model / "tokenizer.json")), random.Random(seed)
    texts = []
    for _ in range(count):
        text = " ".join(chance.choice(WORDS) for _ in range(tokens))
        texts.append(tokenizer.decode(tokenizer.encode(text).ids[:tokens]))
    return texts
