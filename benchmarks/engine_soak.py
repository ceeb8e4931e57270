"""Rows about keeping on: a long soak, the cost of bookkeeping, and what a second turn of a conversation costs."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.peers import Server, Unmeasurable, model_dir, ours, run
from benchmarks.streams import Answer, Question, ask_all, text_prompts

Row = dict[str, Any]

KINDS_OF_REQUEST = 200
ROUNDS = 20


def bookkeeping(steps: int) -> Row:
    """Host time of a step at 256 running, with 10 and with 10,000 waiting."""
    done = run([sys.executable, "-m", "benchmarks.bookkeeping", str(steps)], timeout_s=240)
    if done.returncode:
        raise Unmeasurable(f"benchmarks.bookkeeping failed: {done.stdout[-400:]}")
    few, many = json.loads(done.stdout.splitlines()[-1]).values()
    ratio = many["median_ms"] / few["median_ms"]
    slowest = max(few["median_ms"], many["median_ms"])
    return {
        "value": round(slowest, 3),
        "goal": "<= 1 ms, equal within 20 %",
        "ok": slowest <= 1 and 1 / 1.2 <= ratio <= 1.2,
        "ratio_10000_to_10_waiting": round(ratio, 3),
        "mean_ms": [round(few["mean_ms"], 3), round(many["mean_ms"], 3)],
    }


def second_turn(folder: Path, flags: tuple[str, ...], conversations: int = 5) -> Row:
    """TTFT of the second turn of a 1,000-token conversation over that of the first."""
    ratios, first_ms, second_ms = list[float](), list[float](), list[float]()
    every_token = {"ignore_eos": True, "return_token_ids": True}  # or an empty answer would have no first token
    with ours(folder, "--max-model-len", "2048", *flags) as server:
        warm = Question([{"role": "user", "content": "Hello."}], 8, every_token)
        ask_all(server, [warm], concurrency=1, timeout_s=60)
        for text in text_prompts(model_dir(), conversations, tokens=1000, seed=1):
            messages: list[Mapping[str, str]] = [{"role": "user", "content": text}]
            first = ask_all(server, [Question(messages, 32, every_token)], concurrency=1, timeout_s=120)[0][0]
            messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And why is that?"}]
            second = ask_all(server, [Question(messages, 8, every_token)], concurrency=1, timeout_s=120)[0][0]
            ratios.append(second.ttft_s / first.ttft_s)
            first_ms.append(round(first.ttft_s * 1000, 1))
            second_ms.append(round(second.ttft_s * 1000, 1))
    value = round(statistics.median(ratios), 3)
    return {"value": value, "goal": "<= 0.15", "ok": value <= 0.15, "first_ms": first_ms, "second_ms": second_ms}


def kinds_of_request(chance: random.Random) -> list[Question]:
    """Short and long, greedy and drawn, many with a beginning that others share."""
    bases = [[chance.randrange(3, 479) for _ in range(64)] for _ in range(10)]
    found = []
    for index in range(KINDS_OF_REQUEST):
        own = [chance.randrange(3, 479) for _ in range(chance.randrange(4, 100))]
        drawn = {"temperature": 0.8, "top_p": 0.95, "seed": index} if index % 2 else {"temperature": 0.0}
        prompt = (chance.choice(bases) if chance.random() < 0.5 else []) + own
        more = {"return_token_ids": True, **drawn}
        found.append(Question(prompt, max_tokens=chance.randrange(1, 33), more=more))
    return found


def metric(server: Server, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as response:
        text = response.read().decode()
    values = [s.value for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
    if not values:
        raise Unmeasurable(f"/metrics has no {name}")
    return float(sum(values))


def soak(folder: Path, requests: int) -> Row:
    """`requests` to a tiny model under too small a cache, a tenth of them broken off; then each kind alone."""
    from tests.tiny_model import build_tiny_model

    model, chance = build_tiny_model(folder / "tiny"), random.Random(1)
    kinds = kinds_of_request(chance)
    plain = ("--dtype", "fp32", "--num-threads", "1", "--max-model-len", "256")
    tight = (*plain, "--kv-cache-tokens", "1024", "--max-num-seqs", "16", "--max-num-batched-tokens", "128")
    answers: list[tuple[int, Answer]] = []
    memory, started_s = list[int](), time.monotonic()
    with ours(folder, *tight, model=model) as server:
        for _ in range(ROUNDS):
            picks = [chance.randrange(KINDS_OF_REQUEST) for _ in range(requests // ROUNDS)]
            questions = [maybe_left(kinds[pick], chance) for pick in picks]
            answered, _ = ask_all(server, questions, concurrency=32, timeout_s=120)
            answers += zip(picks, answered, strict=True)
            memory.append(server.rss_bytes())
        seconds = time.monotonic() - started_s
        preemptions = metric(server, "engine_num_preemptions_total")
        leaked = left_over(server)
    with ours(folder, *plain, "--no-enable-prefix-caching", model=model) as server:
        alone, _ = ask_all(server, kinds, concurrency=1, timeout_s=60)
    differ = sum(not agrees(answer, alone[pick]) for pick, answer in answers)
    broken_off = sum(answer.left for _, answer in answers)
    growth = memory[-1] / memory[ROUNDS // 4] - 1
    # A short soak ends before every shape of a batch has been seen, each of which the kernels keep something for.
    flat = growth <= 0.05 or requests < 10_000
    return {
        "value": {"leaked": leaked, "differ": differ, "memory_growth": round(growth, 4)},
        "goal": "0 blocks leaked, 0 answers that differ, memory flat within 5 %",
        "ok": leaked == 0 and differ == 0 and flat and preemptions > 0,
        "memory_judged": requests >= 10_000,
        "requests": len(answers),
        "broken_off": broken_off,
        "preemptions": int(preemptions),
        "tokens_compared": sum(len(answer.token_ids) for _, answer in answers),
        "requests_per_s": round(len(answers) / seconds, 1),
        "rss_mib": [round(rss / 2**20) for rss in memory],
    }


def maybe_left(question: Question, chance: random.Random) -> Question:
    """The question, or in one of nine cases where it is long enough to notice, one whose asker hangs up."""
    if question.max_tokens < 4 or chance.random() > 1 / 8:
        return question
    return Question(question.prompt, question.max_tokens, question.more, chance.randrange(1, question.max_tokens // 2))


def agrees(answer: Answer, alone: Answer) -> bool:
    if answer.left:
        return answer.token_ids == alone.token_ids[: len(answer.token_ids)]
    return answer.token_ids == alone.token_ids


def left_over(server: Server) -> float:
    """Share of the cache still held once nothing runs; the engine itself ends if its books don't balance then."""
    deadline = time.monotonic() + 10
    while metric(server, "engine_num_requests_running") + metric(server, "engine_num_requests_waiting"):
        if time.monotonic() > deadline:
            raise Unmeasurable("requests still run 10 s after their clients have gone")
        time.sleep(0.05)
    request = urllib.request.Request(f"{server.url}/reset_prefix_cache", method="POST")
    with urllib.request.urlopen(request, timeout=10):
        return metric(server, "engine_kv_cache_usage_perc")
