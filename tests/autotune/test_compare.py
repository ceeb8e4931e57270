"""What `autotune compare` derives: the order of launches, ratios paired by round, and what it says of them."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.compare import Comparison, document, parse_bytes, show
from autotune.compare.against import against
from autotune.compare.entry import Entry
from autotune.compare.journal import Journal
from autotune.compare.metric import compared_by
from autotune.compare.order import round_order
from autotune.compare.sentences import conclusions, notes
from autotune.compare.trial import CompareTrial
from autotune.pages.compare import compare_page
from autotune.pages.compare_picture import ratios
from tools.errors import UserError
from tools.measure import ClientHealth, Measurement, RequestRecord, Slo, WorkloadSpec, materialise

SPEC = WorkloadSpec.model_validate(
    {"requests": 12, "prompt_tokens": 20, "output_tokens": 5, "arrivals": {"kind": "constant", "rate_rps": 10}}
)


def entry(name: str, **changes: Any) -> Entry:
    plain = Entry(
        name=name,
        file=f"{name}.yaml",
        engine=name,
        target={"kind": name},
        model="tiny",
        model_digest="d1",
        config={"parallel": 4},
        seats=4,
    )
    return replace(plain, **changes)


def trial(
    name: str, number: int, ttft_ms: float, *, prompt_tokens: int = 20, lost: int = 0, late: bool = False
) -> CompareTrial:
    """All requests took `ttft_ms`, the first `lost` failed; a `late` client makes it invalid."""
    workload = materialise(SPEC, number)
    answered = [_record(index, ttft_ms, prompt_tokens) for index in range(lost, SPEC.requests)]
    failed = [
        RequestRecord(index, index / 10, index / 10, "failed", index / 10 + 1, error="refused") for index in range(lost)
    ]
    measurement = Measurement(
        workload_digest=workload.digest,
        spec_digest=workload.spec_digest,
        seed=number,
        config_digest="c",
        offered=SPEC.requests,
        started_at=1e9,
        window_s=2.0,
        records=(*failed, *answered),
        client=ClientHealth(500.0 if late else 0.1, 0.99 if late else 0.1),
    )
    return CompareTrial(name, number, workload, Slo(), None, 1.5, 2.0**30, measurement)


def failure(name: str, number: int, kind: str = "crash") -> CompareTrial:
    told = {"kind": kind, "message": "exit status 1", "log_tail": ""}
    return CompareTrial(name, number, materialise(SPEC, number), Slo(), None, 0.0, None, failure=told)


def _record(index: int, ttft_ms: float, prompt_tokens: int) -> RequestRecord:
    due_s = index / 10
    times_s = tuple(due_s + ttft_ms / 1000 + 0.01 * place for place in range(5))
    return RequestRecord(
        index,
        due_s,
        due_s,
        "ok",
        times_s[-1],
        http_status=200,
        first_chunk_s=times_s[0],
        token_times_s=times_s,
        token_counts=(1,) * 5,
        prompt_tokens=prompt_tokens,
        output_tokens=5,
        token_source="usage",
        finish_reason="length",
    )


def comparison(*trials: CompareTrial, entries: tuple[Entry, ...] = (entry("a"), entry("b"))) -> Comparison:
    return Comparison(entries, trials, 3, "p95_ttft_ms", "12 chat requests")


def three_rounds(a_ms: tuple[float, ...], b_ms: tuple[float, ...]) -> Comparison:
    both = [(name, values) for name, values in (("a", a_ms), ("b", b_ms))]
    return comparison(*(trial(name, number, ms) for name, values in both for number, ms in enumerate(values)))


@given(st.integers(2, 7))
def test_every_contender_has_every_place_and_follows_every_other_equally_often(contenders: int) -> None:
    rounds = [round_order(contenders, number) for number in range(2 * contenders)]
    for first in (0, contenders):
        for place in range(contenders):
            assert {row[place] for row in rounds[first : first + contenders]} == set(range(contenders))
    followed = Counter(pair for row in rounds for pair in pairwise(row))
    assert len(followed) == contenders * (contenders - 1) and len(set(followed.values())) == 1


def test_a_ratio_is_paired_by_round_so_that_the_machines_slow_hours_cancel() -> None:
    # Unpaired, values that double from round to round could tell nothing apart.
    found = against({0: 100.0, 1: 200.0, 2: 400.0}, {0: 79.0, 1: 161.0, 2: 320.0})
    assert found is not None and found.low is not None and found.high is not None
    assert found.ratio == pytest.approx(0.8, rel=0.01) and found.low < 0.8 < found.high < 0.9
    assert found.resolved and found.rounds == 3
    alone = against({0: 100.0, 1: 200.0}, {1: 100.0, 5: 3.0})
    assert alone is not None and (alone.ratio, alone.low, alone.resolved, alone.rounds) == (0.5, None, False, 1)
    assert against({0: 100.0}, {1: 100.0}) is None
    assert against({0: 100.0, 1: 0.0}, {0: 100.0, 1: 2.0}) is None
    assert against({0: 100.0, 1: None}, {0: 100.0, 1: 2.0}) is None


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    import random

    draw, held, times = random.Random(7), 0, 1500
    for _ in range(times):
        first = {number: math.exp(draw.gauss(0, 0.3)) for number in range(3)}
        found = against(first, {n: value * 0.9 * math.exp(draw.gauss(0, 0.05)) for n, value in first.items()})
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 0.9 <= found.high
    assert 0.93 < held / times < 0.97


def test_who_is_better_is_said_for_each_metric_and_where_nothing_is_resolved_too() -> None:
    found = three_rounds((100, 105, 98), (81, 84, 78))
    said = {sentence.split(":")[0]: sentence for sentence in conclusions(found)}
    assert "b is better than a: 20% lower (ratio 0.80, 95 %: 0.7" in said["p95 TTFT, ms"]
    assert said["p95 TTFT, ms"].endswith("3 rounds).")
    assert "nothing is resolved between a and b (ratio 1.00" in said["p50 TPOT, ms"]
    assert conclusions(found)[0].startswith("p95 TTFT")  # what the work is judged by
    assert not any("good requests" in sentence for sentence in conclusions(found))  # no promise, no goodput
    slower = three_rounds((100, 105, 98), (301, 320, 299))
    assert "b is worse than a: 3.0 times as much" in conclusions(slower)[0]
    one = comparison(trial("a", 0, 100), trial("b", 0, 50))
    assert "one round has no interval" in conclusions(one)[0] and "nothing is resolved" in conclusions(one)[0]


def test_a_failure_and_an_invalid_trial_are_told_and_counted_for_nothing() -> None:
    found = comparison(
        *(trial("a", number, 100) for number in range(3)),
        failure("b", 0),
        trial("b", 1, 50, late=True),
        trial("b", 2, 90),
    )
    b = found.entries[1]
    assert [each.round for each in found.counted(b)] == [2]
    ratio = found.against(b, found.metrics[0])
    assert ratio is not None and ratio.ratio == pytest.approx(0.9) and ratio.rounds == 1
    said = "\n".join(notes(found))
    assert "b, round 1: crash: exit status 1" in said and "b, round 2: INVALID, not counted: client_limited" in said
    none = comparison(trial("a", 0, 100), failure("b", 0, "timeout"))
    assert all("can't be held against a: no trial of b counts" in sentence for sentence in conclusions(none))


def test_who_fails_requests_is_not_favoured_by_leaving_them_out() -> None:
    found = comparison(*(trial(name, 0, 50 if name == "b" else 100, lost=3 * (name == "b")) for name in "ab"))
    p95 = found.metrics[0]
    assert p95.name == "p95_ttft_ms" and found.against(found.entries[1], p95) is None
    assert "b can't be held against a: some round can't tell it" in conclusions(found)[0]


def test_what_makes_the_work_or_the_answers_differ_is_said_loudly() -> None:
    entries = (
        entry("a", lossy={"dtype": "bf16"}),
        entry("b", model_digest="d2", lossy={"dtype": "fp32"}, unsized="no knob sets it"),
    )
    work = [trial("a", 0, 100), trial("b", 0, 100, prompt_tokens=21)]
    said = "\n".join(notes(comparison(*work, entries=entries)))
    assert "NOT THE SAME MODEL" in said and "NOT THE SAME ANSWERS: dtype" in said
    assert "NOT THE SAME WORK: the servers count different prompt tokens" in said and "output tokens" not in said
    assert "b: its KV cache isn't sized (no knob sets it); it is measured with what it has" in said
    assert notes(comparison(*(trial(name, 0, 100) for name in "ab"))) == []
    alike = (entry("a", lossy={"dtype": "bf16"}), entry("b", lossy={"dtype": "bfloat16"}))
    assert notes(comparison(entries=alike)) == []
    sizes = (entry("a", kv_bytes=100 << 20), entry("b", kv_bytes=103 << 20))
    assert "NOT THE SAME MEMORY: KV caches differ (a: 100 MiB, b: 103 MiB)" in notes(comparison(entries=sizes))[0]


def test_how_many_sequences_fit_is_bound_by_the_cache_and_by_the_seats() -> None:
    assert entry("a", kv_tokens=1000, seats=64).sequences(100) == 10
    assert entry("a", kv_tokens=1000, seats=4).sequences(100) == 4
    assert entry("a", kv_tokens=1000, seats=None).sequences(100) == 10
    assert entry("a", kv_tokens=None, seats=None).sequences(100) is None


def test_the_page_the_picture_and_the_document_hold_every_contender(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("a", "<b>")
    hostile = tuple(entry(name, kv_bytes=2**20, kv_tokens=640) for name in names)
    trials = [trial(name, number, 90 + number) for name in names for number in range(3)]
    for found in (
        comparison(*trials, entries=hostile),
        comparison(trials[0], failure("<b>", 0), entries=hostile),
        comparison(failure("a", 0), failure("<b>", 0), entries=hostile),
        comparison(entries=hostile),
    ):
        page = compare_page(found)
        assert "<b>" not in page and "&lt;b&gt;" in page
        picture = ET.fromstring(ratios(found))
        assert picture.tag.endswith("svg")
        shown = document(found)
        assert [one["name"] for one in shown["contenders"]] == list(names)
        assert set(shown["metrics"]) == {metric.name for metric in found.metrics}
        show(found)
        assert "<b>" in capsys.readouterr().out
    whole = document(comparison(*trials, entries=hostile))
    assert whole["metrics"]["p95_ttft_ms"]["contenders"]["<b>"]["to_first"]["rounds"] == 3
    assert whole["contenders"][0]["sequences"] == 4 and whole["contenders"][0]["prompt_tokens"] == 20


def test_trials_are_read_back_equal_and_a_torn_line_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    path, compared = tmp_path / "compare.json", {"workload": "w", "seed": 1}
    journal = Journal(path, compared)
    written = [trial("a", 0, 100), failure("b", 0)]
    for one in written:
        journal.append(one.to_json())
    with path.open("ab") as file:
        file.write(b'{"contender":"a","round":1')
    again = Journal(path, compared)
    read = [CompareTrial.from_json(row, materialise(SPEC, row["round"]), Slo()) for row in again.found]
    assert read == written
    again.append(failure("b", 1).to_json())
    assert [row["round"] for row in Journal(path, compared).found] == [0, 0, 1]
    with pytest.raises(UserError, match=r"found those of another \(seed differ\)"):
        Journal(path, {**compared, "seed": 2})
    path.write_text("something else\n")
    with pytest.raises(UserError, match="another kind of file"):
        Journal(path, compared)
    assert path.read_text() == "something else\n"


@pytest.mark.parametrize(("text", "size"), [("512MiB", 2**29), ("1.5GiB", 3 * 2**29), ("64 KiB", 2**16)])
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes("--kv", text) == size


@pytest.mark.parametrize("text", ["512", "512MB", "0MiB", "-1GiB", ""])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected a size like 512MiB"):
        parse_bytes("--kv", text)


def test_what_the_work_is_judged_by_stands_first_and_once() -> None:
    names = [metric.name for metric in compared_by("output_throughput")]
    assert names[0] == "output_throughput" and len(names) == len(set(names))
