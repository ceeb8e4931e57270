"""Claims: what in prose is one, and which recorded figure bears it out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.summary import METRICS
from verifiers.claims import WITHHELD, Cell, claims_in, shown, untraceable

OBJECTIVE = "p95_ttft_ms"
CELLS = (
    Cell(0.427, "ratio", (OBJECTIVE,)),
    Cell(1.52, "ratio", ("output_throughput",)),
    Cell(212.04, "ms", (OBJECTIVE,)),
    Cell(36.2, "ms", ("median_tpot_ms",)),
    Cell(1234.4, "/s", ("output_throughput",)),
    Cell(5.0, "%", (OBJECTIVE,)),
    Cell(2.5 * 2**30, "B"),
)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("+23 % is what it brings", [(23, "%")]),
        ("23% faster", [(23, "%")]),
        ("23 percent", [(23, "%")]),
        ("２３％ better", [(23, "%")]),
        ("p95 TTFT 210 ms", [(210, "ms")]),
        ("p95_ttft_ms falls from 412 to 210", [(412, ""), (210, "")]),
        ("TTFT: 12", [(12, "")]),
        ("1.5x throughput", [(1.5, "x")]),
        ("2x", [(2, "x")]),
        ("3 times faster, tried 3 times", [(3, "x")]),
        ("20-30 % lower", [(20, "%"), (30, "%")]),
        ("1,234 tok/s at 2 req/s", [(1234, "/s"), (2, "/s")]),
        ("needs 2.5 GiB", [(2.5, "GiB")]),
        ("1e-3 s", [(0.001, "s")]),
        ("1e999 ms", [(math.inf, "ms")]),
        ("1e-999 ms", [(0, "ms")]),
        ("9" * 400 + " ms", [(math.inf, "ms")]),
        ("1.5k tok/s, 2M tokens per second", [(1500, "/s"), (2_000_000, "/s")]),
        ("900 tok/sec and 12 requests a second", [(900, "/s"), (12, "/s")]),
        ("x2.3 or ×4", [(2.3, "x"), (4, "x")]),
        ("2,5x and 2,5 %", [(2.5, "x"), (2.5, "%")]),
        ("halves TTFT", [(2, "x")]),
        ("output throughput is tripled", [(3, "x")]),
    ],
)
def test_a_numeral_beside_a_metric_a_percent_or_a_unit_is_a_claim(text: str, claims: list[tuple[float, str]]) -> None:
    assert [(claim.value, claim.unit) for claim in claims_in(text)] == claims


@pytest.mark.parametrize(
    "text",
    [
        "in 3 steps",
        "max_num_seqs 16",
        "p95 TTFT with max_num_seqs 16",
        "max_num_seqs: 1 -> 16",
        "--max-num-seqs=32 as t3 had it",
        "the p95 of c8",
        "improves latency in 3 steps",
        "16 seats for 32 requests of 64 tokens",
        "with the 95 % interval",
        "a 7B model on 2026-11-30",
        "by Little's law L = 2 W",
        "on x86 and x64",
        "doubles max_num_seqs for TTFT",
        "halving the token budget keeps the seats and the cache as they are",
        "a 4k context",
    ],
)
def test_other_numerals_are_nobodys_business(text: str) -> None:
    assert claims_in(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "57 % lower",
        "57.3% lower p95 TTFT",
        "p95 TTFT 212 ms",
        "p95 TTFT of 0.21 s",
        "TTFT is 2.3x better",
        "throughput 1.5x",
        "at least 5 %",
        "2.50 GiB",
        "halves the p95 TTFT",
        "output throughput 1.2k tok/sec",
        "output throughput 1,234 tok/s",
    ],
)
def test_what_was_recorded_may_be_said_at_any_rounding(text: str) -> None:
    assert untraceable(text, CELLS, OBJECTIVE) == ()


@pytest.mark.parametrize(
    "text",
    [
        "+23 %",
        "p95 TTFT 210 ms",  # 212 isn't 210 at the rounding shown
        "p95 TTFT 36 ms",  # TPOT's
        "36 ms",  # of the objective, where nothing is named
        "throughput 57 % higher",
        "2.5 s",
        "40x",
        "TTFT 212 s",
        "1e999 ms",
        "p95 TTFT 2e-999 s",
        "triples the output throughput",
        "TTFT 3,4x better",
    ],
)
def test_what_was_not_recorded_may_not(text: str) -> None:
    assert untraceable(text, CELLS, OBJECTIVE)
    assert shown(text, CELLS, OBJECTIVE) == WITHHELD


@given(
    metric=st.sampled_from([name for name in METRICS if name.endswith("_ms") and name != "max_itl_ms"]),
    value=st.floats(0.01, 1e5),
    digits=st.integers(0, 3),
)
def test_a_recorded_latency_is_traceable_in_every_form(metric: str, value: float, digits: int) -> None:
    statistic, family = metric.removesuffix("_ms").split("_", 1)
    cells = (Cell(value, "ms", (metric,)),)
    for text in (
        f"{metric} = {value:.{digits}f} ms",
        f"({metric} {value:,.{digits}f} ms)",
        f"{metric}: {value:.{digits}f}",
    ):
        assert untraceable(text, cells, OBJECTIVE) == ()
    if family in ("ttft", "tpot", "itl", "e2el"):
        assert untraceable(f"{statistic} {family.upper()} is {value:.{digits}f} ms", cells, OBJECTIVE) == ()


@given(ratio=st.floats(0.05, 20), said=st.integers(0, 2000))
def test_a_percentage_is_traceable_only_where_the_ratio_gives_it(ratio: float, said: int) -> None:
    cells = (Cell(ratio, "ratio", (OBJECTIVE,)),)
    forms = (100 * (ratio - 1), 100 * (1 / ratio - 1), 100 * ratio)
    near = any(abs(abs(form) - said) <= 0.5 for form in forms)
    assert (untraceable(f"{said} % better", cells, OBJECTIVE) == ()) == near or any(
        abs(abs(abs(form) - said) - 0.5) < 1e-3 for form in forms
    )


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    for claim in claims_in(text):
        assert claim.value >= 0 and claim.rounding > 0
