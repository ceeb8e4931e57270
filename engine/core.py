"""Engine: requests in, tokens out, one step at a time."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.block_pool import BlockPool
from engine.detokenizer import Detokenizer
from engine.errors import RequestRefused
from engine.knobs import EngineKnobs
from engine.kv_cache import KVCache, KVLayout
from engine.memory import MemoryPlan
from engine.metrics import EngineMetrics, RequestTimes
from engine.model_config import ModelConfig
from engine.resolve import TORCH_DTYPES, require_memory, resolve
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Sequence
from engine.tokenizer import ModelTokenizer
from engine.weights import load_model

__all__ = ["Completion", "Delta", "Engine"]


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step added to one request."""

    request_id: str
    token_ids: tuple[int, ...]
    text: str
    "May be empty: a character or a possible stop string can be unfinished."
    finish_reason: FinishReason | None
    num_cached_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    num_cached_tokens: int


@dataclass(slots=True)
class Request:
    sequence: Sequence
    detokenizer: Detokenizer
    times: RequestTimes


class Engine:
    """A model that serves many requests at once. Not thread-safe: one thread owns it (see server/loop.py)."""

    def __init__(self, directory: Path, knobs: EngineKnobs | None = None, metrics: EngineMetrics | None = None) -> None:
        """Load the model in `directory`.

        Raises:
            StartRefused: the model or the knobs can't be served on this machine.
        """
        self.model_config = ModelConfig.load(directory)
        self.knobs = knobs = resolve(knobs or EngineKnobs(), self.model_config)
        self.memory: MemoryPlan = require_memory(knobs, self.model_config)
        self.metrics = metrics or EngineMetrics()
        torch.set_num_threads(knobs.num_threads)
        device, dtype = torch.device(knobs.device), TORCH_DTYPES[knobs.dtype]
        self.tokenizer = ModelTokenizer(directory)
        self._eos = self.model_config.eos_token_ids
        if not self._eos and self.tokenizer.eos_token_id is not None:
            self._eos = frozenset({self.tokenizer.eos_token_id})
        config = self.model_config
        model = load_model(directory, config, dtype=dtype, device=device, max_model_len=knobs.max_model_len)
        layout = KVLayout(
            num_blocks=knobs.kv_cache_tokens // knobs.block_size,
            block_size=knobs.block_size,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )
        self._cache = KVCache(layout, config.num_layers, dtype, device)
        self._runner = Runner(model, self._cache)
        self.scheduler = Scheduler(knobs, BlockPool(layout.num_blocks))
        self._requests: dict[str, Request] = {}

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    @property
    def num_blocks(self) -> int:
        return self._cache.layout.num_blocks

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt that leaves room for one token of answer."""
        return self.knobs.max_model_len - 1

    def check(self, prompt: ReadOnlyList[int], params: SamplingParams) -> None:
        """Whether the request can be served.

        Raises:
            RequestRefused: an empty or over-long prompt, a token the model doesn't have, or too many tokens asked for.
        """
        limit, count = self.knobs.max_model_len, len(prompt)
        if not count:
            raise RequestRefused("the prompt is empty", param="prompt")
        if count > self.max_prompt_tokens:
            raise RequestRefused(
                f"the prompt has {count} tokens; the limit is {self.max_prompt_tokens} "
                f"(max_model_len {limit}, less one for the answer). Shorten it",
                code="context_length_exceeded",
                param="prompt",
            )
        if count + params.max_tokens > limit:
            raise RequestRefused(
                f"max_tokens is {params.max_tokens} and the prompt has {count} tokens, together "
                f"{count + params.max_tokens}; the limit is {limit} (max_model_len). Ask for at most {limit - count}",
                code="context_length_exceeded",
                param="max_tokens",
            )
        if min(prompt) < 0 or max(prompt) >= self.model_config.vocab_size:
            raise RequestRefused(
                f"the prompt has token ids from {min(prompt)} to {max(prompt)}; "
                f"the model knows 0 to {self.model_config.vocab_size - 1}",
                param="prompt",
            )

    def add(
        self, request_id: str, prompt: ReadOnlyList[int], params: SamplingParams, *, arrived_s: float | None = None
    ) -> None:
        """Queue a request; its tokens come out of later steps.

        Args:
            arrived_s: when it arrived, on the monotonic clock; now by default.

        Raises:
            RequestRefused: see `check`.
        """
        self.check(prompt, params)
        sequence = Sequence(request_id, array("i", prompt), params, self.knobs.block_size)
        times = RequestTimes(time.monotonic() if arrived_s is None else arrived_s)
        self._requests[request_id] = Request(sequence, Detokenizer(self.tokenizer.decode, params.stop), times)
        self.scheduler.add(sequence)
        self._measure()

    def abort(self, request_id: str) -> None:
        """Stop a request and free its blocks. One that is over, or was never there, is left alone."""
        if request_id in self._requests:
            self._finish(self._requests[request_id], "abort")
            self._measure()

    def step(self) -> list[Delta]:
        """Compute one step: schedule, run, take in what came out."""
        step = self.scheduler.schedule()
        now_s = time.monotonic()
        for sequence in step.admitted:
            self.metrics.admitted(sequence, self._requests[sequence.request_id].times, now_s)
        self.metrics.preemptions.inc(len(step.preempted))
        deltas: list[Delta] = []
        if step.scheduled:
            tokens = self._runner.run(step)
            self.scheduler.commit(step)
            now_s = time.monotonic()
            deltas = [self._take(self._requests[sequence.request_id], token, now_s) for sequence, token in tokens]
            self.metrics.iteration_tokens.observe(step.num_tokens)
        self._measure()
        if not self.has_work:
            self.scheduler.check()
        return deltas

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix; False, and nothing forgotten, while requests run."""
        if self.has_work:
            return False
        self.scheduler.pool.forget_all()
        return True

    def generate(self, prompts: Iterable[ReadOnlyList[int] | str], params: SamplingParams) -> list[Completion]:
        """Answers to `prompts` (text or token ids), computed together. For use without a server."""
        ids = []
        for index, prompt in enumerate(prompts):
            ids.append(f"generate-{index}")
            self.add(ids[-1], self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt, params)
        deltas: dict[str, list[Delta]] = {request_id: [] for request_id in ids}
        while self.has_work:
            for delta in self.step():
                deltas[delta.request_id].append(delta)
        return [join(deltas[request_id]) for request_id in ids]

    def _take(self, request: Request, token: int, now_s: float) -> Delta:
        """One more token for `request`: its text, and whether it is the last."""
        sequence, params = request.sequence, request.sequence.params
        sequence.token_ids.append(token)
        self.metrics.token(sequence, request.times, now_s)
        ends = token in params.stop_token_ids or (token in self._eos and not params.ignore_eos)
        text = "" if ends else request.detokenizer.add(token)
        reason: FinishReason | None = None
        if ends or request.detokenizer.stopped:
            reason = "stop"
        elif sequence.num_output_tokens >= params.max_tokens:
            reason = "length"
        if reason:
            text += request.detokenizer.finish()
            if request.detokenizer.stopped:
                reason = "stop"
            self._finish(request, reason)
        return Delta(sequence.request_id, (token,), text, reason, sequence.num_cached_tokens)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        self.scheduler.finish(request.sequence, reason)
        self._runner.forget(request.sequence)
        self.metrics.finished(reason, request.times, time.monotonic())
        del self._requests[request.sequence.request_id]

    def _measure(self) -> None:
        self.metrics.running.set(len(self.scheduler.running))
        self.metrics.waiting.set(len(self.scheduler.waiting))
        self.metrics.kv_usage.set(self.scheduler.pool.usage)


def join(deltas: ReadOnlyList[Delta]) -> Completion:
    last = deltas[-1]
    assert last.finish_reason is not None
    return Completion(
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        text="".join(delta.text for delta in deltas),
        finish_reason=last.finish_reason,
        num_cached_tokens=last.num_cached_tokens,
    )
