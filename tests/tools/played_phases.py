"""Loads that a replica of known costs would have given, as the records of a client: what a fit has to find again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.measure.draw import draw
from tools.measure.load import ClientHealth, LoadResult
from tools.measure.records import RequestRecord
from tools.measure.workload import WorkloadSpec, materialise
from tools.service import Phase, Replica, ServiceCurve, simulate
from tools.service.load_spec import all_at_once, at_rate, one_at_a_time
from tools.service.token_scale import TokenScale

__all__ = ["MIX", "TRUTH", "play_phase", "play_phases"]

TRUTH = Replica(
    ServiceCurve(
        name="truth",
        spec_digest="",
        seats=12,
        overhead_s=0.018,
        prefill_s_per_token=0.0004,
        steps=((1, 0.012), (4, 0.016), (12, 0.026)),
        prompt_tokens=128,
        output_tokens=30,
    ),
    chunk_tokens=256,
    latency_share=0.4,
)
MIX = WorkloadSpec.model_validate(
    {
        "class": "chat",
        "requests": 60,
        "prompt_tokens": {"min": 32, "max": 200},
        "output_tokens": {"min": 12, "max": 48},
        "arrivals": {"kind": "poisson", "rate_rps": 4},
    }
)
WORDS_AND_TEMPLATE = TokenScale(per_word=1.0, per_request=12.0, hit_share=0.0, output_share=1.0)


def play_phase(
    name: str,
    spec: WorkloadSpec,
    seed: int,
    *,
    rate_rps: float | None = None,
    truth: Replica = TRUTH,
    noise_s: float = 0.0,
    tokens: TokenScale = WORDS_AND_TEMPLATE,
) -> Phase:
    """One load on `truth`. Every stamp comes late by an exponential time of mean `noise_s`, streams stay in order."""
    workload, random = materialise(spec, seed), np.random.default_rng(seed)
    jobs = tokens.jobs(draw(spec, spec.requests, seed, part="measured", scheduled=True))
    played = simulate(truth, jobs, users=spec.arrivals.concurrency if spec.arrivals.kind == "closed" else None)
    records = []
    for record, words in zip(played.records(), workload.prompt_words, strict=True):
        prompt = round(tokens.per_request + tokens.per_word * words)
        counted = replace(record, prompt_tokens=prompt, cached_tokens=prompt - (record.prompt_tokens or 0))
        records.append(_late(counted, noise_s, random))
    load = LoadResult(0.0, played.window_s, tuple(records), ClientHealth(0.0, 0.0), ())
    return Phase(name, workload, load, rate_rps)


def play_phases(
    rates_rps: tuple[float, ...] = (3.0, 5.0, 7.0),
    *,
    mix: WorkloadSpec = MIX,
    truth: Replica = TRUTH,
    noise_s: float = 0.0,
    burst: int = 40,
    tokens: TokenScale = WORDS_AND_TEMPLATE,
) -> list[Phase]:
    """A probe, a burst and rates."""

    def play(name: str, spec: WorkloadSpec, seed: int, rate_rps: float | None = None) -> Phase:
        return play_phase(name, spec, seed, rate_rps=rate_rps, truth=truth, noise_s=noise_s, tokens=tokens)

    rates = [play("rate", at_rate(mix, rate, 40), 3 + place, rate) for place, rate in enumerate(rates_rps)]
    return [play("probe", one_at_a_time(mix, 16), 1), play("burst", all_at_once(mix, burst, 60.0), 2), *rates]


def _late(record: RequestRecord, noise_s: float, random: np.random.Generator) -> RequestRecord:
    stamps = np.array(record.token_times_s) + random.exponential(noise_s, len(record.token_times_s))
    times = tuple(np.maximum.accumulate(stamps).tolist())
    return replace(record, token_times_s=times, first_chunk_s=times[0], end_s=times[-1])
