"""Vocabulary: every engine's counters by one set of names, whatever a version of it calls them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.samples import Sample

from tools.targets.target import Counters

__all__ = ["counted", "engine_of_samples", "exported", "missing"]


_RANKS = ("pp_rank", "tp_rank", "moe_ep_rank")
"Labels by which workers of one model differ; replicas of it (vLLM's `engine`, SGLang's `dp_rank`) are added up."


@dataclass(frozen=True, slots=True)
class _Source:
    """Where one counter stands in a scrape. Samples that differ in labels are added up, but for ranks."""

    spellings: tuple[tuple[str, ...], ...]
    "The metric's names, newest first. Of several names in one spelling each must be there, and their values are added."
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    "Label -> the values that count."
    but: Mapping[str, frozenset[str]] = field(default_factory=dict)
    "Label -> the values that don't."
    late: bool = False
    "The engine shows it from the first event on: a scrape of that engine without it counts none."
    always: bool = True
    "False: some versions don't export it."

    def read(self, samples: Mapping[str, Sequence[Sample]]) -> float | None:
        """None where no spelling is whole; of several the newest counts, for some versions export both for a time."""
        for names in self.spellings:
            if all(name in samples for name in names):
                return sum(self._total(samples[name]) for name in names)
        return 0.0 if self.late else None

    def _total(self, samples: Sequence[Sample]) -> float:
        """Workers of one model, each with a rank of its own, may all tell what they did together: the first counts."""
        firsts: dict[tuple[tuple[str, str], ...], tuple[tuple[int, ...], float]] = {}
        for sample in samples:
            if self._counts(sample):
                shared = tuple(sorted(pair for pair in sample.labels.items() if pair[0] not in _RANKS))
                mine = tuple(int(sample.labels.get(rank) or 0) for rank in _RANKS), sample.value
                firsts[shared] = min(firsts.get(shared, mine), mine, key=lambda each: each[0])
        return sum(value for _, value in firsts.values())

    def _counts(self, sample: Sample) -> bool:
        wanted = all(sample.labels.get(label) in values for label, values in self.only.items())
        return wanted and not any(sample.labels.get(label) in values for label, values in self.but.items())


def _named(*names: str, late: bool = False, always: bool = True) -> _Source:
    return _Source(tuple((name,) for name in names), late=late, always=always)


def _timers(prefix: str) -> dict[str, _Source]:
    """The engine's own clock: sum and count of two histograms."""
    return {
        f"{timer}_seconds_{part}": _named(f"{prefix}{histogram}_{part}")
        for timer, histogram in (("e2e", "e2e_request_latency_seconds"), ("ttft", "time_to_first_token_seconds"))
        for part in ("sum", "count")
    }


def _ended(metric: str, unanswered: frozenset[str]) -> dict[str, _Source]:
    """Requests by why they ended."""
    return {
        "requests": _Source(((metric,),), but={"finished_reason": unanswered}),
        "aborted": _Source(((metric,),), only={"finished_reason": unanswered}),
    }


_BUNDLED: Mapping[str, _Source] = {
    **_ended("engine_request_success_total", frozenset({"abort"})),
    "rejected": _named("engine_requests_rejected_total"),
    "prompt_tokens": _named("engine_prompt_tokens_total"),
    "generation_tokens": _named("engine_generation_tokens_total"),
    "prefix_queries_tokens": _named("engine_prefix_cache_queries_total"),
    "prefix_hit_tokens": _named("engine_prefix_cache_hits_total"),
    "preemptions": _named("engine_num_preemptions_total"),
    **_timers("engine_"),
}

_VLLM: Mapping[str, _Source] = {
    **_ended("vllm:request_success_total", frozenset({"abort", "error"})),
    "rejected": _named("vllm:admission_rejections_total", always=False),
    "prompt_tokens": _named("vllm:prompt_tokens_total"),
    "generation_tokens": _named("vllm:generation_tokens_total"),
    "prefix_queries_tokens": _named("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hit_tokens": _named("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions": _named("vllm:num_preemptions_total"),
    **_timers("vllm:"),
}
"""A preempted request's second reading is in neither of the prefix counters."""

_SGLANG: Mapping[str, _Source] = {
    "requests": _named("sglang:num_requests_total"),
    "aborted": _named("sglang:num_aborted_requests_total", late=True, always=False),
    "rejected": _Source(
        (("sglang:http_responses_total",),), only={"status_code": frozenset({"429", "503"})}, late=True, always=False
    ),
    "prompt_tokens": _named("sglang:prompt_tokens_total"),
    "generation_tokens": _named("sglang:generation_tokens_total"),
    "prefix_queries_tokens": _named("sglang:prompt_tokens_total"),
    "prefix_hit_tokens": _named("sglang:cached_tokens_total", late=True),
    "preemptions": _named("sglang:num_retracted_requests_total", late=True, always=False),
    **_timers("sglang:"),
}
"""Every prompt token is looked up, so that queries are the prompt tokens; hits come by `cache_source`."""

_LLAMACPP_PROMPT = _Source((("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),), always=False)
_LLAMACPP: Mapping[str, _Source] = {
    "prompt_tokens": _LLAMACPP_PROMPT,
    "generation_tokens": _named("llamacpp:tokens_predicted_total"),
    "prefix_queries_tokens": _LLAMACPP_PROMPT,
    "prefix_hit_tokens": _named("llamacpp:prompt_tokens_cached_total", always=False),
}
"""It neither counts requests nor times them. Its `prompt_tokens_total` leaves out what came from the cache; a version
that doesn't count that beside tells it with each answer alone (`usage.prompt_tokens_details.cached_tokens`)."""

_ENGINES: Mapping[str, tuple[str, Mapping[str, _Source]]] = {
    "bundled": ("engine_", _BUNDLED),
    "vllm": ("vllm:", _VLLM),
    "sglang": ("sglang:", _SGLANG),
    "llamacpp": ("llamacpp:", _LLAMACPP),
}
"""How the names of an engine's metrics begin, and where its counters stand."""


def exported(engine: str) -> frozenset[str]:
    """Names of `Counters` that every known version of `engine` exports: one that is missing was withheld.

    A version may export more; none are known of an engine that isn't known.
    """
    return frozenset(name for name, source in _sources(engine) if source.always)


def counted(engine: str, samples: Sequence[Sample]) -> Counters:
    """The counters of `engine` in `samples`; one that isn't a finite number is as good as absent."""
    by_name = _by_name(engine, samples)
    values = {name: source.read(by_name) for name, source in _sources(engine)} if by_name else {}
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}


def missing(engine: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    """The metrics that every version of `engine` exports and `samples` lacks, by their newest names.

    What a scrape proves before anything is measured by it: a metric that was renamed shows here, not as a zero.
    """
    by_name = _by_name(engine, samples)
    absent = (source for _, source in _sources(engine) if source.always and not source.late)
    return tuple(dict.fromkeys(source.spellings[0][0] for source in absent if source.read(by_name) is None))


def engine_of_samples(samples: Sequence[Sample]) -> str | None:
    """The engine whose metrics these are; None where they are no known engine's."""
    return next((engine for engine in _ENGINES if _by_name(engine, samples)), None)


def _sources(engine: str) -> Iterator[tuple[str, _Source]]:
    return iter(_ENGINES[engine][1].items()) if engine in _ENGINES else iter(())


def _by_name(engine: str, samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """The samples of `engine` by their names; empty where it has none of them."""
    prefix = _ENGINES[engine][0] if engine in _ENGINES else None
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        if prefix is not None and sample.name.startswith(prefix):
            found.setdefault(sample.name, []).append(sample)
    return found
