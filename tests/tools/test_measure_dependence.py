"""Intervals of percentiles under dependence: they cover, are as wide as they must be, and know when they can't tell."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.simulated_queues import Queue, simulated_load
from tools.measure import Slo, percentile, percentile_interval, summary_intervals
from tools.measure.dependence import certainties, inflation, mean_error, t_quantile
from tools.measure.summary import effective_samples

SHARES = (0.5, 0.9, 0.95, 0.99)


@pytest.mark.parametrize(
    ("queue", "requests", "share"), [(Queue(1), 4000, 0.5), (Queue(16), 4000, 0.95), (Queue(4), 16_000, 0.5)]
)
def test_intervals_cover_the_truth_of_a_busy_queue_where_independent_ones_do_not(
    queue: Queue, requests: int, share: float
) -> None:
    (truth,) = queue.quantiles((share,))
    hits = naive = told = 0
    for row in queue.sojourns(100, requests, seed=1):
        interval, plain = certainties(row, (share,))[0].interval, percentile_interval(sorted(row), share)
        assert plain is not None
        naive += plain.low <= truth <= plain.high
        if interval is not None:
            told += 1
            hits += interval.low <= truth <= interval.high
    assert told >= 95
    assert hits / told >= 0.88  # 0.95, less three standard errors of 100 queues
    assert naive < hits


def test_the_formula_of_the_simulated_queue_is_its_long_run() -> None:
    queue = Queue(4)
    sojourns = queue.sojourns(200, 4000, seed=3)
    shares = (0.5, 0.95)
    for share, truth in zip(shares, queue.quantiles(shares), strict=True):
        assert float((sojourns <= truth).mean()) == pytest.approx(share, abs=0.01)


def test_a_short_load_of_a_busy_queue_has_no_p99() -> None:
    told = [certainties(row, (0.99,))[0].interval is not None for row in Queue(1).sojourns(50, 2000, seed=2)]
    assert sum(told) <= 2  # 2,000 requests are worth about 25 independent ones here
    one = certainties(Queue(1).sojourns(1, 2000, seed=2)[0], (0.99,))[0]
    assert one.needed_samples > 2000


def test_effective_samples_are_what_theory_has() -> None:
    found = [certainties(row, (0.5,))[0].effective_samples for row in Queue(1).sojourns(50, 16_000, seed=4)]
    # The variance of the share below the median is 25 times that of independent samples (by simulation of 10^6 runs).
    assert 16_000 / 25 * 0.6 < float(np.median(found)) < 16_000 / 25 * 1.2


def test_independent_samples_keep_about_their_exact_interval() -> None:
    random = np.random.default_rng(5)
    ratios = []
    for _ in range(60):
        samples = random.exponential(1.0, 2000)
        for share, one in zip(SHARES, certainties(samples, SHARES), strict=True):
            exact = percentile_interval(sorted(samples), share)
            assert exact is not None and one.interval is not None
            ratios.append((one.interval.high - one.interval.low) / (exact.high - exact.low))
    assert min(ratios) >= 1
    assert np.mean(ratios) < 1.2


def test_independent_samples_are_told_from_nearly_as_few() -> None:
    random = np.random.default_rng(6)
    told = [certainties(random.exponential(1.0, 600), (0.99,))[0].interval is not None for _ in range(60)]
    assert sum(told) >= 54


samples = st.lists(st.floats(0, 1e6) | st.just(math.inf), min_size=1, max_size=200)


@given(samples, st.sampled_from(SHARES))
def test_an_interval_is_never_narrower_than_the_exact_one(values: list[float], share: float) -> None:
    one = certainties(values, (share,))[0]
    exact = percentile_interval(sorted(values), share)
    assert 1 <= one.effective_samples <= one.samples == len(values)
    if one.interval is not None:
        assert exact is not None
        assert one.interval.low <= exact.low <= exact.high <= one.interval.high < math.inf
        middle = percentile(sorted(values), share)
        assert middle is not None and one.interval.low <= middle <= one.interval.high
    elif exact is not None:
        assert one.effective_samples < len(values)  # only dependence takes an interval away


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100))
def test_intervals_scale_with_their_unit(seed: int, unit: float) -> None:
    walk = np.exp(np.cumsum(np.random.default_rng(seed).normal(0, 0.1, 500)) * 0.1)
    plain, scaled = certainties(walk, (0.5,))[0], certainties(walk * unit, (0.5,))[0]
    assert (plain.interval is None) == (scaled.interval is None)
    if plain.interval is not None and scaled.interval is not None:
        assert scaled.interval.low == pytest.approx(plain.interval.low * unit, rel=1e-6)
        assert scaled.interval.high == pytest.approx(plain.interval.high * unit, rel=1e-6)


def test_the_gaps_of_one_request_are_one_cluster() -> None:
    each = np.random.default_rng(7).exponential(1.0, 400)
    gaps = np.repeat(each, 50)
    alone = certainties(each, (0.5,))[0].interval
    clustered = certainties(gaps, (0.5,), sizes=[50] * 400)[0]
    assert alone is not None and clustered.interval is not None
    assert clustered.effective_samples == pytest.approx(400, rel=0.5)
    width = clustered.interval.high - clustered.interval.low
    assert width == pytest.approx(alone.high - alone.low, rel=0.5)
    unclustered = certainties(np.random.default_rng(8).permutation(gaps), (0.5,))[0].interval
    assert unclustered is not None and width > 3 * (unclustered.high - unclustered.low)


def test_requests_without_samples_and_wrong_sizes() -> None:
    values = [float(n % 7) for n in range(60)]
    assert certainties(values, (0.5,), sizes=[0, 30, 0, 30]) == certainties(values, (0.5,), sizes=[30, 30])
    with pytest.raises(ValueError, match="add up"):
        certainties(values, (0.5,), sizes=[30])
    assert certainties([], (0.5,))[0].interval is None
    assert certainties([], (0.99,))[0].needed_samples == 368


def test_many_samples_of_one_request_are_one_sample() -> None:
    one = certainties([float(n) for n in range(1000)], (0.5,), sizes=[1000])[0]
    assert one.interval is None and one.effective_samples == 1


def test_inflation_of_a_share() -> None:
    random = np.random.default_rng(9)
    assert inflation(list(random.random(2000) < 0.3)) < 2
    assert inflation([n // 100 % 2 == 0 for n in range(2000)]) > 20
    assert inflation([]) == inflation([True]) == inflation([False] * 9) == 1


def test_the_error_of_a_mean_under_dependence() -> None:
    random = np.random.default_rng(10)
    errors = []
    for _ in range(20):
        series = [0.0]
        for noise in random.normal(0, 1, 4000):
            series.append(0.8 * series[-1] + noise)
        errors.append(mean_error(series))
    # An autoregression of 0.8 with unit noise: 1 / (1 - 0.8) / sqrt(n).
    assert float(np.median(errors)) == pytest.approx(5 / math.sqrt(4000), rel=0.25)
    assert mean_error([1.0]) == math.inf


def test_t_quantiles_from_the_tables() -> None:
    assert t_quantile(0.975, 10) == pytest.approx(2.228, abs=1e-3)
    assert t_quantile(0.975, 1e9) == pytest.approx(1.960, abs=1e-3)


def test_the_order_is_that_of_time_and_not_of_index() -> None:
    load = simulated_load(2000, servers=1, load=0.8, seed=3)
    shuffled = np.random.default_rng(1).permutation(len(load.records))
    renumbered = sorted(
        (replace(record, index=int(index)) for record, index in zip(load.records, shuffled, strict=True)),
        key=lambda record: record.index,
    )
    mixed = replace(load, records=tuple(renumbered))
    assert effective_samples(mixed) == effective_samples(load)
    assert effective_samples(load)["p50_ttft_ms"] < 500


def test_an_attainment_of_requests_that_waited_together_is_less_sure() -> None:
    slo = Slo(ttft_ms={"p95": 3000})
    busy = simulated_load(2000, servers=1, load=0.8, seed=3)
    order = np.random.default_rng(2).permutation(2000)
    apart = replace(
        busy,
        records=tuple(
            replace(
                busy.records[place],
                scheduled_s=float(number),
                token_times_s=tuple(
                    time_s - busy.records[place].scheduled_s + number for time_s in busy.records[place].token_times_s
                ),
            )
            for number, place in enumerate(order)
        ),
    )
    together, mixed = (summary_intervals(one, slo)["slo_attainment"] for one in (busy, apart))
    assert together.high - together.low > 1.5 * (mixed.high - mixed.low)
