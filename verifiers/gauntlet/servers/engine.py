"""Engine: an honest server without a model. A lie is a subclass that changes one thing about it."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiohttp import web

from tools.canonical import digest
from tools.targets.knobs import Value
from verifiers.gauntlet.servers.mind import Mind

__all__ = ["Answering", "Engine", "Setup"]

TEMPLATE_TOKENS = 8
BLOCK_TOKENS = 16


@dataclass(frozen=True)
class Setup:
    """How a launch was asked to be."""

    model: str
    model_digest: str
    config: Mapping[str, Value]
    ttft_s: float = 0.060
    itl_s: float = 0.007
    pid: int = 1
    noise: str = "launch"
    shared: dict[str, Any] = field(default_factory=dict)
    "What outlives a launch, for those who cheat by it."


@dataclass
class Answering:
    """One request while it is answered."""

    request: web.Request
    asked: dict[str, Any]
    text: str
    "Of its prompt, all messages together."
    prompt: list[int]
    cached: int
    ids: list[int]
    began_s: float
    nats: list[float]
    "Log-probabilities of the answer's tokens."
    finish: str = "length"

    @property
    def told(self) -> list[tuple[int, float]]:
        """Tokens of the answer with their log-probabilities."""
        return list(zip(self.ids, self.nats, strict=True))

    @property
    def usage(self) -> dict[str, Any]:
        return self.usage_after(len(self.ids))

    def usage_after(self, tokens: int) -> dict[str, Any]:
        total = len(self.prompt) + tokens
        details = {"cached_tokens": self.cached}
        return {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": tokens,
            "total_tokens": total,
            "prompt_tokens_details": details,
        }


class Engine:
    """Answers each request after a wait for its first token and a gap for each further one."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.mind = Mind()
        self.random = Random(setup.noise)
        self.started_at = time.time()
        self.blocks: set[int] = set()
        self.counts = dict.fromkeys(
            ("requests", "aborted", "rejected", "prompt", "generation", "queries", "hits", "preemptions"), 0.0
        )
        self.times = dict.fromkeys(("ttft_sum", "ttft_count", "e2e_sum", "e2e_count"), 0.0)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=1 << 24)
        application.router.add_post("/v1/chat/completions", self.chat)
        application.router.add_post("/v1/completions", self.completion)
        application.router.add_get("/v1/models", self.models)
        application.router.add_get("/metrics", self.metrics)
        application.router.add_get("/server_info", self.server_info)
        application.router.add_post("/reset_prefix_cache", self.reset)
        return application

    # What it says of itself.

    @property
    def effective(self) -> dict[str, Value]:
        """The config that is in force."""
        return dict(self.setup.config)

    async def server_info(self, request: web.Request) -> web.Response:
        told = {
            "model": self.setup.model,
            "model_digest": self.setup.model_digest,
            "config": self.effective,
            "started_at": self.started_at,
            "pid": self.setup.pid,
            "engine": "autotune-engine 0.1.0",
        }
        return web.json_response(told)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.setup.model, "object": "model"}]})

    def config_hash(self) -> str:
        return digest(self.effective)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="".join(f"{name} {value}\n" for name, value in self.samples().items()))

    def samples(self) -> dict[str, float]:
        """The lines of /metrics."""
        counts, times = self.counts, self.times
        labels = f'config_hash="{self.config_hash()}",model_digest="{self.setup.model_digest}"'
        return {
            f"engine_config_info{{{labels}}}": 1,
            "engine_prompt_tokens_total": counts["prompt"],
            "engine_generation_tokens_total": counts["generation"],
            "engine_prefix_cache_queries_total": counts["queries"],
            "engine_prefix_cache_hits_total": counts["hits"],
            "engine_num_preemptions_total": counts["preemptions"],
            "engine_requests_rejected_total": counts["rejected"],
            'engine_request_success_total{finished_reason="length"}': counts["requests"],
            'engine_request_success_total{finished_reason="abort"}': counts["aborted"],
            "engine_e2e_request_latency_seconds_sum": times["e2e_sum"],
            "engine_e2e_request_latency_seconds_count": times["e2e_count"],
            "engine_time_to_first_token_seconds_sum": times["ttft_sum"],
            "engine_time_to_first_token_seconds_count": times["ttft_count"],
        }

    async def reset(self, request: web.Request) -> web.Response:
        self.blocks.clear()
        return web.json_response({})

    # How it answers.

    async def completion(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked.get("echo"):
            tokens = self.mind.tokens(asked["prompt"])
            scored = self.mind.scored([*tokens, 2], int(asked.get("logprobs") or 0))
            return web.json_response({"choices": [{"index": 0, "text": "", "logprobs": scored}]})
        answering = self.begin(request, asked, str(asked["prompt"]))
        return await self.whole(answering)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        answering = self.begin(request, asked, "\n".join(str(one["content"]) for one in asked["messages"]))
        return await (self.streamed(answering) if asked.get("stream") else self.whole(answering))

    def begin(self, request: web.Request, asked: dict[str, Any], text: str) -> Answering:
        """Read the prompt, look into the cache, and choose the answer's tokens."""
        prompt = self.read(self.mind.tokens(text))
        length = self.length(int(asked.get("max_tokens") or 16))
        if asked.get("temperature", 1) == 0:
            ids, nats = self.mind.answer(prompt, length), [-0.9] * length
        else:
            ids, nats = self.mind.sampled(prompt, length, self.random, self.heat)
        return Answering(request, asked, text, prompt, self.look_up(prompt), ids, time.perf_counter(), nats)

    heat = 1.0
    "Temperature where a request names none."

    def read(self, tokens: list[int]) -> list[int]:
        """The prompt as it is computed: with the template around it."""
        return [1] * TEMPLATE_TOKENS + tokens

    def length(self, asked: int) -> int:
        """Tokens to answer with, where so many were asked for."""
        return asked

    def look_up(self, prompt: Sequence[int]) -> int:
        """Tokens of the prompt that are in the prefix cache; those that aren't are put there."""
        held, known, chain = 0, True, 0
        for end in range(BLOCK_TOKENS, len(prompt), BLOCK_TOKENS):
            chain = hash((chain, tuple(prompt[end - BLOCK_TOKENS : end])))
            known = known and chain in self.blocks
            held += BLOCK_TOKENS if known else 0
            self.blocks.add(chain)
        return held

    def wait_s(self, answering: Answering) -> float:
        """Seconds until the first token."""
        new_tokens = len(answering.prompt) - answering.cached
        return self.setup.ttft_s * (0.7 + 0.3 * new_tokens / 80) * self.luck()

    def gap_s(self, answering: Answering) -> float:
        """Seconds from one token to the next."""
        return self.setup.itl_s * self.luck()

    def luck(self) -> float:
        return math.exp(self.random.gauss(0.0, 0.05))

    def count(self, answering: Answering, first_s: float, last_s: float) -> None:
        """Add an answered request to the counters."""
        tokens = {"prompt": len(answering.prompt), "queries": len(answering.prompt), "hits": answering.cached}
        for name, value in {"requests": 1, "generation": len(answering.ids), **tokens}.items():
            self.counts[name] += value
        self.times["ttft_sum"] += first_s
        self.times["e2e_sum"] += last_s
        self.times["ttft_count"] += 1
        self.times["e2e_count"] += 1

    async def streamed(self, answering: Answering) -> web.StreamResponse:
        """The answer, chunk by chunk on an absolute schedule."""
        response = await self.open(answering)
        at_s = answering.began_s + self.wait_s(answering)
        first_s = at_s
        for place, token in enumerate(answering.ids):
            await self.until(at_s)
            await response.write(self.chunk(answering, [token], place + 1))
            at_s += self.gap_s(answering)
        await self.close(answering, response, first_s - answering.began_s)
        return response

    async def open(self, answering: Answering) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.headers()})
        await response.prepare(answering.request)
        return response

    def headers(self) -> dict[str, str]:
        """Beyond the usual ones."""
        return {}

    async def until(self, at_s: float) -> None:
        """Sleep until a moment on the performance counter."""
        await asyncio.sleep(max(0.0, at_s - time.perf_counter()))

    def chunk(self, answering: Answering, tokens: Sequence[int], so_far: int, *, ids: bool = True) -> bytes:
        """One event with some tokens, the last of which is number `so_far` of the answer."""
        last = so_far == len(answering.ids)
        choice: dict[str, Any] = {
            "index": 0,
            "delta": {"content": "".join(f" w{token}" for token in tokens)},
            "finish_reason": answering.finish if last else None,
        }
        if ids and answering.asked.get("return_token_ids"):
            choice["token_ids"] = list(tokens)
        event: dict[str, Any] = {"object": "chat.completion.chunk", "model": self.setup.model, "choices": [choice]}
        if (answering.asked.get("stream_options") or {}).get("continuous_usage_stats") and ids:
            event["usage"] = answering.usage_after(so_far)
        return self.event(event)

    def event(self, data: Mapping[str, Any]) -> bytes:
        return b"data: " + json.dumps(data).encode() + b"\n\n"

    async def close(self, answering: Answering, response: web.StreamResponse, first_s: float) -> None:
        """Count the request, then tell its usage and the end: who has the end has been counted."""
        self.count(answering, first_s, time.perf_counter() - answering.began_s)
        usage = self.event({"model": self.setup.model, "choices": [], "usage": answering.usage})
        await response.write(usage + b"data: [DONE]\n\n")
        await response.write_eof()

    async def whole(self, answering: Answering) -> web.StreamResponse:
        """The answer in one body."""
        await self.until(answering.began_s + 0.002)
        self.count(answering, 0.001, 0.002)
        asked = answering.asked
        choice: dict[str, Any] = {"index": 0, "finish_reason": answering.finish}
        if asked.get("return_token_ids"):
            choice["token_ids"] = answering.ids
        if asked.get("logprobs"):
            content = [{"token": f"token_id:{token}", "logprob": nats} for token, nats in answering.told]
            choice["logprobs"] = {"content": content} if "messages" in asked else {"token_logprobs": answering.nats}
        said = self.said(answering)
        choice |= {"message": {"role": "assistant", **said}} if "messages" in asked else {"text": said["content"]}
        if said.get("tool_calls"):
            choice["finish_reason"] = "tool_calls"
        body = {"model": self.setup.model, "choices": [choice], "usage": answering.usage}
        return web.json_response(body, headers=self.headers())

    def said(self, answering: Answering) -> dict[str, Any]:
        """Text and calls, in the form that was asked for."""
        asked = answering.asked
        if (call := self.mind.call(asked)) is not None:
            return {"content": None, "tool_calls": [call]}
        form = asked.get("response_format") or {}
        if form.get("type") == "json_schema":
            return {"content": json.dumps(self.mind.instance(form["json_schema"]["schema"]))}
        return {"content": self.mind.told(answering.text, answering.ids)}
