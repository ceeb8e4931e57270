"""Host time of a step with 256 running sequences: `python -m benchmarks.bookkeeping STEPS` prints JSON.

A real engine (scheduler, seats, cache pages, batch tensors, sampler, metrics, deltas) over a model that computes
nothing. One engine has 10 requests waiting and one has 10,000; they step in turns, so that what disturbs the machine
disturbs both.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from engine.core import Engine
from engine.knobs import EngineKnobs
from engine.loading import load_engine
from engine.model import Model
from engine.sampling import SamplingParams
from tests.tiny_model import build_tiny_model

RUNNING, WAITING = 256, (10, 10_000)


def compute_nothing(_: Model, batch: Any, __: Any, ___: Any) -> torch.Tensor:
    """Logits for the wanted rows, which always say the same."""
    return LOGITS[: len(batch.wanted)]


def no_plan(_: Any) -> None:
    """What attention would prepare; it belongs to the model."""


LOGITS = torch.randn(RUNNING * 64, 512, generator=torch.Generator().manual_seed(0))


def engine_with(model: Path, waiting: int) -> Engine:
    """An engine whose 256 seats are taken by sequences that decode, with `waiting` more in the queue."""
    knobs = EngineKnobs(
        max_num_seqs=RUNNING,
        max_num_batched_tokens=16384,
        max_model_len=1024,
        kv_cache_tokens=RUNNING * 1024,
        dtype="fp32",
        num_threads=1,
    )
    engine = load_engine(model, knobs)
    engine._runner._model.kernels.plan = no_plan  # type: ignore[assignment, method-assign]
    chance = random.Random(waiting)
    params = SamplingParams(max_tokens=900, temperature=0.0, ignore_eos=True)
    for index in range(RUNNING + waiting):
        engine.add(f"r{index}", [chance.randrange(3, 479) for _ in range(chance.randrange(33, 65))], params)
    while len(engine.scheduler.running) < RUNNING or engine.scheduler.waiting.first() is None:
        engine.step()
    return engine


def main(steps: int) -> None:
    Model.forward = compute_nothing  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_model(Path(folder) / "tiny", max_position_embeddings=1024)
        engines = {waiting: engine_with(model, waiting) for waiting in WAITING}
        spent: dict[int, list[float]] = {waiting: [] for waiting in WAITING}
        for number in range(steps + 20):
            for waiting, engine in engines.items():
                started_s = time.perf_counter()
                deltas = engine.step()
                seconds = time.perf_counter() - started_s
                assert len(deltas) == RUNNING, len(deltas)
                if number >= 20:
                    spent[waiting].append(seconds * 1000)
        for waiting, engine in engines.items():
            assert len(engine.scheduler.waiting) == waiting
    print(
        json.dumps(
            {
                waiting: {"median_ms": statistics.median(v), "mean_ms": statistics.mean(v)}
                for waiting, v in spent.items()
            }
        )
    )


main(int(sys.argv[1]))
