"""Request logs of six kinds, written in real formats by a plain simulation of users. Nothing here knows of the twin."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["LOGS", "agents", "azure", "bursty_days", "chat_tenants", "documents", "mooncake"]

WORDS = [
    f"{a}{b}" for a in ("ba", "ce", "di", "fo", "gu", "ha", "ke", "li") for b in ("n", "mo", "ra", "st", "lu", "x")
]


def chat_tenants(path: Path, seed: int, conversations: int = 300) -> Path:
    """Six tenants with system prompts and tools of their own, a few turns each, as a proxy's JSON lines with text."""
    chance = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(words))

    tenants = [(f"model-{n % 2}", text(chance.randrange(150, 900))) for n in range(6)]
    rows = []
    start = 1_700_000_000.0
    for number in range(conversations):
        start += chance.expovariate(0.8)
        model, system = tenants[min(int(chance.expovariate(0.7)), 5)]
        messages = [{"role": "system", "content": system}]
        at = start
        for _ in range(1 + int(chance.expovariate(0.5))):
            messages.append({"role": "user", "content": text(int(chance.lognormvariate(3.5, 0.8)) + 3)})
            answer = text(int(chance.lognormvariate(4.2, 0.6)) + 1)
            words = sum(len(message["content"].split()) + 2 for message in messages)
            took = 0.2 + 0.02 * len(answer.split())
            usage = {"prompt_tokens": words, "completion_tokens": len(answer.split()), "total_tokens": 0}
            body = {"model": model, "messages": [dict(message) for message in messages], "max_tokens": 800}
            rows.append(
                {
                    "startTime": at,
                    "endTime": at + took,
                    "request": body,
                    "response": {"choices": [{"message": {"role": "assistant", "content": answer}}], "usage": usage},
                    "metadata": {"session_id": f"s{number}"},
                }
            )
            messages.append({"role": "assistant", "content": answer})
            at += took + chance.lognormvariate(2.0, 1.0)
    rows.sort(key=lambda row: float(str(row["endTime"])))  # a proxy logs what is finished
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def agents(path: Path, seed: int, tasks: int = 120) -> Path:
    """Agents whose context grows with each tool call, some forking into two, as the bundled engine logs token ids."""
    chance = random.Random(seed)
    tools = [[chance.randrange(50_000) for _ in range(chance.randrange(600, 2500))] for _ in range(3)]
    rows: list[tuple[float, str]] = []

    def work(context: list[int], at: float, steps: int) -> None:
        for step in range(steps):
            context = context + [chance.randrange(50_000) for _ in range(int(chance.lognormvariate(5.0, 0.9)) + 2)]
            answer = [chance.randrange(50_000) for _ in range(int(chance.lognormvariate(4.0, 0.5)) + 1)]
            took = 0.3 + 0.01 * len(answer)
            entry = {
                "time": 1.7e9 + at + took,
                "request_id": f"r{len(rows)}",
                "path": "/v1/chat/completions",
                "status": 200,
                "params": {"model": "m", "max_tokens": 4096},
                "e2e_ms": took * 1000,
                "prompts": [{"token_ids": context}],
                "choices": [{"index": 0, "token_ids": answer, "finish_reason": "stop", "cached_tokens": 0}],
            }
            rows.append((at + took, json.dumps(entry)))
            context = context + answer
            at += took + chance.expovariate(1 / 4.0)
            if step == 2 and chance.random() < 0.15:
                work(context, at + chance.uniform(0.1, 2), 3)

    at = 0.0
    for _ in range(tasks):
        at += chance.expovariate(0.05)
        work(list(chance.choice(tools)), at, 2 + int(chance.expovariate(0.2)))
    rows.sort()
    path.write_text("".join(line + "\n" for _, line in rows))
    return path


def azure(path: Path, seed: int, requests: int = 12_000) -> Path:
    """Correlated log-normal lengths and a doubly random rate, as Azure's CSV: nothing is told of the prompts."""
    chance = random.Random(seed)
    moment = datetime(2024, 5, 10, tzinfo=UTC)
    with gzip.open(path, "wt", newline="") as file:
        table = csv.writer(file)
        table.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
        rate = 5.0
        for number in range(requests):
            if number % 500 == 0:
                rate = math.exp(chance.gauss(1.5, 0.6))
            moment += timedelta(seconds=chance.expovariate(rate))
            z = chance.gauss(0, 1)
            context = int(math.exp(6.9 + 1.0 * z)) + 1
            generated = int(math.exp(4.6 + 0.8 * (0.5 * z + math.sqrt(0.75) * chance.gauss(0, 1)))) + 1
            table.writerow([moment.strftime("%Y-%m-%d %H:%M:%S.%f") + "0", context, generated])
    return path


def bursty_days(path: Path, seed: int, days: int = 3) -> Path:
    """Gamma gaps (cv 3) under a daily wave, as BurstGPT's CSV with sessions of some turns."""
    chance = random.Random(seed)
    rows: list[list[object]] = []
    clock = 0.0
    session = 0
    while clock < days * 86400:
        rate = 0.02 * (1 + 0.9 * math.sin(2 * math.pi * (clock / 86400 - 0.3)))
        clock += chance.gammavariate(1 / 9, 9 / rate)
        session += 1
        at, prompt = clock, 0
        for _ in range(1 if chance.random() < 0.7 else 1 + int(chance.expovariate(0.6))):
            prompt += int(chance.lognormvariate(5.0, 1.2)) + 4
            answer = int(chance.lognormvariate(4.8, 0.7)) + 1
            took = 0.03 * answer
            rows.append([f"{at:.3f}", session, f"{took:.2f}", "ChatGPT", prompt, answer, prompt + answer, "API log"])
            prompt += answer
            at += took + 5 + chance.expovariate(1 / 40)
    rows.sort(key=lambda row: float(str(row[0])))
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        columns = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
        table.writerow(columns.split(","))
        table.writerows(rows)
    return path


def mooncake(path: Path, seed: int, conversations: int = 5000) -> Path:
    """Prefixes of 512-token blocks in three levels, single turns and some that go on, as Mooncake's JSON lines."""
    chance = random.Random(seed)
    fresh = iter(range(10**9))
    roots = [[next(fresh) for _ in range(chance.randrange(1, 6))] for _ in range(4)]
    branches = [chance.choice(roots) + [next(fresh) for _ in range(chance.randrange(1, 12))] for _ in range(40)]
    rows = []
    at = 0.0
    for _ in range(conversations):
        at += chance.gammavariate(0.5, 2 / 8)
        begin = chance.choices([[], chance.choice(roots), chance.choice(branches)], [0.2, 0.5, 0.3])[0]
        moment, ids, length = at, list(begin), len(begin) * 512 + int(chance.lognormvariate(6.5, 1.1)) + 1
        for _ in range(1 if chance.random() < 0.8 else chance.randrange(2, 6)):
            ids = ids[: length // 512]  # the part of a block at the end had a hash that nobody else can have
            ids += [next(fresh) for _ in range(-(-length // 512) - len(ids))]
            answer = int(chance.lognormvariate(5, 0.8)) + 1
            row = {"timestamp": int(moment * 1000), "input_length": length, "output_length": answer, "hash_ids": ids}
            rows.append((moment, json.dumps(row)))
            length += answer + int(chance.lognormvariate(5.5, 1.0)) + 1
            moment += 20 + chance.expovariate(1 / 30)
            ids = list(ids)
    rows.sort()
    path.write_text("".join(line + "\n" for _, line in rows))
    return path


def documents(path: Path, seed: int, documents: int = 6000) -> Path:
    """Thousands of documents, each asked about one to four times: sharing that is wide and thin."""
    chance = random.Random(seed)
    fresh = iter(range(10**9))
    rows = []
    for _ in range(documents):
        document = [next(fresh) for _ in range(int(chance.lognormvariate(2, 0.7)) + 1)]
        for _ in range(chance.choice([1, 1, 2, 2, 3, 4])):
            length = len(document) * 512 + int(chance.lognormvariate(5.5, 0.9)) + 1
            ids = document + [next(fresh) for _ in range(-(-length // 512) - len(document))]
            at = chance.random() * 3600
            answer = int(chance.lognormvariate(5, 0.6)) + 1
            rows.append(
                (at, {"timestamp": at * 1000, "input_length": length, "output_length": answer, "hash_ids": ids})
            )
    rows.sort(key=lambda row: row[0])
    path.write_text("".join(json.dumps(row) + "\n" for _, row in rows))
    return path


LOGS: dict[str, tuple[str, Callable[[Path, int], Path]]] = {
    "chat of several tenants": ("chat.jsonl", chat_tenants),
    "agents with growing context": ("agents.jsonl", agents),
    "azure, without blocks": ("azure.csv.gz", azure),
    "bursty, with days": ("bursty.csv", bursty_days),
    "mooncake": ("mooncake.jsonl", mooncake),
    "documents asked about again": ("documents.jsonl", documents),
}
"""Kind of log -> file name and what writes it."""
