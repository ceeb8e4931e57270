"""Parts of gpu_check that run whole engines."""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu_models import random_engine, shape
from benchmarks.gpu_rows import Check
from benchmarks.gpu_speed import busy_share
from engine.core import Engine
from engine.sampling import SamplingParams

__all__ = ["EngineCheck"]

Requests = list[tuple[list[int], SamplingParams]]


def nano_requests(count: int, low: int, high: int, *, greedy: bool) -> Requests:
    """The requests of nano-vllm's bench.py, drawn in its order."""
    chance = random.Random(0)
    prompts = [[chance.randint(0, 10000) for _ in range(chance.randint(low, high))] for _ in range(count)]
    temperature = 0.0 if greedy else 0.6
    return [
        (prompt, SamplingParams(temperature=temperature, ignore_eos=True, max_tokens=chance.randint(low, high)))
        for prompt in prompts
    ]


def answer(engine: Engine, requests: Requests) -> tuple[list[list[int]], float]:
    """Tokens of each answer, and the seconds all took."""
    answers: dict[str, list[int]] = {}
    started_s = time.perf_counter()
    for index, (prompt, params) in enumerate(requests):
        answers[str(index)] = []
        engine.add(str(index), prompt, params)
    while engine.has_work:
        for delta in engine.step():
            answers[delta.request_id] += delta.token_ids
    return list(answers.values()), time.perf_counter() - started_s


def kv_bytes_per_token(engine: Engine) -> int:
    return engine.cache.num_bytes // (engine.layout.num_blocks * engine.layout.block_size)


def weight_bytes(engine: Engine) -> int:
    """Bytes of weights that a step reads."""
    model = engine._runner._model
    return sum(linear.num_bytes for layer in model.layers for linear in layer.linears) + model.head.num_bytes


@dataclass
class EngineCheck:
    """The parts, over what was measured of the machine."""

    check: Check
    cuda: bool
    quick: bool
    bandwidth: float
    "Bytes read and written per second by a copy."
    flops: float
    "FLOP/s of a large product."

    @property
    def name(self) -> str:
        return "tiny" if self.quick else "Qwen3-0.6B"

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.cuda else "cpu")

    def ready(self, name: str, **knobs: Any) -> Engine:
        fast = {"kernels": "triton", "dtype": "bf16"} if self.cuda else {"kernels": "torch", "dtype": "fp32"}
        # What the last one held; an engine and its parts refer to each other.
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()
        started_s = time.monotonic()
        engine = random_engine(name, **{"device": self.device.type, **fast, **knobs})
        self.check.note(f"ready in {time.monotonic() - started_s:.1f} s")
        return engine

    def agreement(self) -> None:
        """Rows `engine ...`: the share of tokens that are the same."""
        count, low, high = (7, 3, 20) if self.quick else (23, 20, 200)
        requests = nano_requests(count, low, high, greedy=True)
        common = {"max_num_seqs": 11, "max_num_batched_tokens": 256, "kv_cache_tokens": 8192, "max_model_len": 1024}
        for dtype, least in (("fp32", 0.97), ("bf16", 0.5)) if self.cuda else (("fp32", 0.97),):

            def compare(dtype: str = dtype, least: float = least) -> tuple[float, bool]:
                plain = random_engine(
                    self.name, device=self.device.type, kernels="torch", dtype=dtype, cuda_graphs=False,
                    async_scheduling="off", **common,
                )  # fmt: skip
                expected, _ = answer(plain, requests)
                del plain
                found, _ = answer(self.ready(self.name, dtype=dtype, **common), requests)
                pairs = list(zip(expected, found, strict=True))
                same = [sum(a == b for a, b in zip(*pair, strict=True)) / len(pair[0]) for pair in pairs]
                self.check.note(f"first tokens {sum(a[0] == b[0] for a, b in pairs)} of {count}")
                return round(sum(same) / count, 3), sum(same) / count >= least

            # A near-tie decided otherwise changes all that follows it: in bf16 that is common with random weights.
            goal = f"at least {least} of greedy tokens as in plain PyTorch"
            self.check.measure(f"engine, {dtype}", goal, compare, need_s=40)

    def nano(self) -> None:
        """Rows `nano ...`: output tokens per second, and their share of what bandwidth allows."""
        count, low, high = (12, 5, 20) if self.quick else (256, 100, 1024)
        sizes = {"max_num_seqs": count, "max_model_len": 4096, "enable_prefix_caching": True}
        sizes |= {"max_num_batched_tokens": 512, "kv_cache_tokens": 4096} if self.quick else {
            "max_num_batched_tokens": 16384, "kv_cache_tokens": 300_000,
        }  # fmt: skip
        engine: list[Engine] = []
        for kind, greedy in (("greedy", True), ("temperature 0.6", False)):

            def measure(greedy: bool = greedy) -> tuple[float, bool | None]:
                if not engine:
                    engine.append(self.ready(self.name, **sizes))
                    # Compiles, and takes from the allocator what a full step of prompts needs.
                    for warm_greedy in (True, False):
                        answer(engine[0], nano_requests(min(count, 32), high // 2, high // 2 + 5, greedy=warm_greedy))
                engine[0].reset_prefix_cache()
                requests = nano_requests(count, low, high, greedy=greedy)
                answers, seconds = answer(engine[0], requests)
                tokens = sum(map(len, answers))
                floor_s = self.floor_s(engine[0], requests)
                share = floor_s / seconds
                self.check.note(f"{tokens} tokens in {seconds:.2f} s, {share:.1%} of the roofline ({floor_s:.2f} s)")
                return round(tokens / seconds), share >= 0.7 if self.cuda else None

            self.check.measure(f"nano, {kind}, tokens/s", "at least 70 % of the roofline", measure, need_s=45)

    def floor_s(self, engine: Engine, requests: Requests) -> float:
        """Seconds that bandwidth and arithmetic allow: every key and value a token sees is read once for it, weights
        once for each of the longest answer's steps, and prompts are computed."""
        tokens = sum(len(prompt) * p.max_tokens + p.max_tokens**2 // 2 for prompt, p in requests)
        steps = max(params.max_tokens for _, params in requests)
        read = tokens * kv_bytes_per_token(engine) + steps * weight_bytes(engine)
        prefill = 2 * engine.model_config.num_parameters * sum(len(prompt) for prompt, _ in requests)
        return read / self.bandwidth + prefill / self.flops

    def single(self) -> None:
        """Rows `single ...`: one sequence; bytes of weights and cache per token times tokens per second."""
        prompt, tokens = (8, 20) if self.quick else (128, 384)
        names = ("tiny",) if self.quick else ("Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-8B")
        for name in names:
            for quantization in ("none", "int8") if self.cuda else ("none",):

                def measure(name: str = name, quantization: str = quantization) -> tuple[float, bool | None]:
                    engine = self.ready(
                        name, quantization=quantization, max_num_seqs=4, max_model_len=2048, kv_cache_tokens=8192,
                        max_num_batched_tokens=512,
                    )  # fmt: skip
                    params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=tokens)
                    answer(engine, [(list(range(prompt)), params)])
                    engine.add("one", list(range(1, prompt + 1)), params)
                    times = []
                    while engine.has_work:
                        times += [time.perf_counter() for delta in engine.step() for _ in delta.token_ids]
                    rate = (len(times) - 9) / (times[-1] - times[8])
                    size = weight_bytes(engine) + (prompt + tokens / 2) * kv_bytes_per_token(engine)
                    share = size * rate / self.bandwidth
                    self.check.note(f"{rate:.0f} tokens/s, {1e3 / rate:.2f} ms/token, {size * rate / 1e9:.0f} GB/s")
                    least = 0.6 if quantization == "int8" else 0.8
                    small = name == "Qwen3-0.6B"
                    good = rate >= 1400 if small else share >= least
                    return round(share, 3), good if self.cuda and (small or "8B" in name) else None

                goal = (
                    "at least 1400 tokens/s"
                    if name == "Qwen3-0.6B"
                    else "at least 0.8 (int8: 0.6) of copy bandwidth at 8B"
                )
                self.check.measure(f"single, {name}, {quantization}", goal, measure, need_s=30)

    def busy(self) -> None:
        """Row `busy`: of the time of steady decoding, the share in which some kernel runs."""
        count = 4 if self.quick else 64

        def measure() -> tuple[float, bool | None]:
            engine = self.ready(
                self.name, max_num_seqs=count, max_model_len=2048, kv_cache_tokens=4096 if self.quick else 100_000,
                max_num_batched_tokens=4096,
            )  # fmt: skip
            params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=60 if self.quick else 300)
            for index in range(count):
                engine.add(str(index), list(range(index, index + (20 if self.quick else 300))), params)
            for _ in range(20):
                engine.step()
            activities = [torch.profiler.ProfilerActivity.CUDA if self.cuda else torch.profiler.ProfilerActivity.CPU]
            with torch.profiler.profile(activities=activities) as profile:
                for _ in range(20):
                    engine.step()
                if self.cuda:
                    torch.cuda.synchronize()
            share = busy_share(profile, self.cuda)
            while engine.has_work:
                engine.step()
            return round(share, 3), share >= 0.97 if self.cuda else None

        self.check.measure(f"busy, {count} sequences", "at least 0.97", measure, need_s=25)

    def transformers(self) -> None:
        """Row `transformers ...`: our tokens per second over those of its continuous batching."""

        def measure() -> tuple[float, bool | None]:
            from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig, Qwen3Config

            count, prompt, tokens = (3, 20, 8) if self.quick else (64, 256, 128)
            chance = random.Random(0)
            # Others to warm up with: what a prefix cache finds is not computed.
            warm, prompts = ([[chance.randint(0, 500) for _ in range(prompt)] for _ in range(count)] for _ in "ab")
            params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=tokens)
            engine = self.ready(
                self.name, max_num_seqs=count, max_model_len=1024, max_num_batched_tokens=8192,
                kv_cache_tokens=4096 if self.quick else 40_000,
            )  # fmt: skip
            answer(engine, [(ids, params) for ids in warm])
            ours, our_s = answer(engine, [(ids, params) for ids in prompts])
            del engine
            gc.collect()
            config = Qwen3Config(**{key: value for key, value in shape(self.name).items() if key != "dtype"})
            dtype = torch.bfloat16 if self.cuda else torch.float32
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
            model.to(self.device).eval()
            generation = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
            limits = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=256) if self.quick else None
            with torch.inference_mode():
                # The first call makes cache and graphs, and the second finds them.
                keep = {"continuous_batching_config": limits, "persistent_manager": True}
                model.generate_batch(warm, generation_config=generation, **keep)
                started_s = time.perf_counter()
                found = model.generate_batch(prompts, generation_config=generation, **keep)
                their_s = time.perf_counter() - started_s
            model.destroy_cached_continuous_batching_manager()
            theirs = sum(len(output.generated_tokens) for output in found.values())
            ratio = sum(map(len, ours)) / our_s / (theirs / their_s)
            self.check.note(f"ours {sum(map(len, ours)) / our_s:.0f} tokens/s, theirs {theirs / their_s:.0f}")
            return round(ratio, 2), ratio > 1 if self.cuda else None

        self.check.measure("transformers' continuous batching, ours over theirs", "more than 1", measure, need_s=60)
