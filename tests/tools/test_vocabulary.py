"""Counters of every engine in one vocabulary, from scrapes of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tools.targets.vocabulary import counted, engine_of_samples, exported, missing

FILES = Path(__file__).parent / "files" / "engines"
ENGINES = ("vllm", "sglang", "llamacpp")


def scrape(engine: str, *renamed: tuple[str, str]) -> list[Sample]:
    text = (FILES / f"{engine}_metrics.txt").read_text()
    for old, new in renamed:
        assert old in text
        text = text.replace(old, new)
    return samples(text)


def samples(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def test_vllm_counts() -> None:
    counters = counted("vllm", scrape("vllm"))
    assert counters == {
        "requests": 2.0,
        "aborted": 0.0,
        "rejected": 0.0,
        "prompt_tokens": 58.0,
        "generation_tokens": 10.0,
        "prefix_queries_tokens": 58.0,
        "prefix_hit_tokens": 0.0,
        "preemptions": 0.0,
        "e2e_seconds_sum": pytest.approx(0.448, abs=1e-3),
        "e2e_seconds_count": 2.0,
        "ttft_seconds_sum": pytest.approx(0.191, abs=1e-3),
        "ttft_seconds_count": 2.0,
    }


def test_sglang_counts_and_of_a_pair_of_workers_one_tells() -> None:
    counters = counted("sglang", scrape("sglang"))
    assert counters["preemptions"] == 3  # both workers told the same three
    assert counters["prefix_hit_tokens"] == 64  # from the device and from the host
    assert counters["prefix_queries_tokens"] == counters["prompt_tokens"] == 240
    assert (counters["requests"], counters["aborted"], counters["rejected"]) == (2, 1, 5)
    assert (counters["e2e_seconds_sum"], counters["ttft_seconds_count"]) == (2.5, 2)


def test_llamacpp_counts_tokens_alone() -> None:
    assert counted("llamacpp", scrape("llamacpp")) == {
        "prompt_tokens": 60,  # 41 computed, 19 from the cache
        "generation_tokens": 21,
        "prefix_queries_tokens": 60,
        "prefix_hit_tokens": 19,
    }


def test_what_an_engine_always_exports_is_in_its_scrape() -> None:
    for engine in ENGINES:
        assert exported(engine) <= counted(engine, scrape(engine)).keys()
        assert missing(engine, scrape(engine)) == ()
        assert engine_of_samples(scrape(engine)) == engine
    assert "requests" in exported("bundled") and "requests" not in exported("llamacpp")
    assert exported("something") == frozenset() and counted("something", scrape("vllm")) == {}


def test_a_metric_that_was_renamed_is_named_and_never_zero() -> None:
    renamed = scrape("vllm", ("vllm:prefix_cache_hits_total", "vllm:cache_hits_total"))
    assert "prefix_hit_tokens" not in counted("vllm", renamed)
    assert missing("vllm", renamed) == ("vllm:prefix_cache_hits_total",)


def test_older_names_are_known_and_the_newer_one_counts_where_both_are_there() -> None:
    older = scrape("vllm", ("vllm:prefix_cache_", "vllm:gpu_prefix_cache_"))
    assert counted("vllm", older) == counted("vllm", scrape("vllm"))
    assert missing("vllm", older) == ()
    both = [*scrape("vllm"), Sample("vllm:gpu_prefix_cache_queries_total", {}, 999.0)]
    assert counted("vllm", both)["prefix_queries_tokens"] == 58


def test_a_version_without_a_count_of_cached_tokens_has_no_prefix_counters() -> None:
    older = [sample for sample in scrape("llamacpp") if "cached" not in sample.name]
    assert counted("llamacpp", older) == {"generation_tokens": 21}
    assert missing("llamacpp", older) == ()


def test_what_is_shown_from_the_first_event_on_is_zero_before_it() -> None:
    before = [sample for sample in scrape("sglang") if "aborted" not in sample.name and "cached" not in sample.name]
    assert counted("sglang", before)["aborted"] == 0
    assert counted("sglang", before)["prefix_hit_tokens"] == 0
    assert counted("sglang", []) == {}  # but another server's scrape has no counters at all


def test_replicas_are_added_up_by_their_first_workers() -> None:
    lines = [
        f'sglang:num_retracted_requests_total{{dp_rank="{dp}",tp_rank="{tp}"}} {value}'
        for dp, tp, value in ((0, 0, 3), (0, 1, 3), (1, 2, 4), (1, 3, 4))
    ]
    counters = counted("sglang", samples("# TYPE sglang:num_retracted_requests counter\n" + "\n".join(lines) + "\n"))
    assert counters["preemptions"] == 7
    engines = "\n".join(f'vllm:num_preemptions_total{{engine="{n}"}} {n + 1}' for n in range(3))
    assert counted("vllm", samples(f"# TYPE vllm:num_preemptions counter\n{engines}\n"))["preemptions"] == 6


def test_requests_that_got_no_answer_are_no_requests() -> None:
    text = "# TYPE vllm:request_success counter\n" + "\n".join(
        f'vllm:request_success_total{{finished_reason="{reason}"}} {n}'
        for reason, n in (("stop", 5), ("length", 4), ("repetition", 1), ("abort", 2), ("error", 3))
    )
    counters = counted("vllm", samples(text + "\n"))
    assert (counters["requests"], counters["aborted"]) == (10, 5)


def test_a_counter_that_is_no_number_is_absent() -> None:
    broken = [Sample("vllm:num_preemptions_total", {}, float("nan")), Sample("vllm:prompt_tokens_total", {}, 4.0)]
    assert counted("vllm", broken) == {"prompt_tokens": 4.0}
