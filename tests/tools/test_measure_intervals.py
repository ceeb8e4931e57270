"""Percentiles, and the exact intervals of percentiles and shares of independent samples."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.measure import percentile, percentile_interval, wilson_interval

numbers = st.floats(0, 1e6)


@given(st.lists(numbers, min_size=1, max_size=60), st.floats(0, 1))
def test_percentiles_are_numpys(samples: list[float], share: float) -> None:
    assert percentile(sorted(samples), share) == pytest.approx(float(np.percentile(samples, share * 100)), abs=1e-6)


def test_a_percentile_on_an_infinite_sample_is_none() -> None:
    assert percentile([1.0, 2.0, math.inf], 0.5) == 2.0
    assert percentile([1.0, 2.0, math.inf], 0.75) is None
    assert percentile([1.0, math.inf, math.inf], 1.0) is None
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_an_interval_exists_from_its_least_sample_on(share: float, fewest: int) -> None:
    assert percentile_interval([float(n) for n in range(fewest - 1)], share) is None
    assert percentile_interval([float(n) for n in range(fewest)], share) is not None


@given(st.integers(6, 300), st.sampled_from([0.5, 0.9, 0.95]))
@settings(deadline=None)
def test_an_interval_is_the_narrowest_that_the_binomial_allows(n: int, share: float) -> None:
    interval = percentile_interval([float(rank) for rank in range(1, n + 1)], share)
    mass = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    low = max((r for r in range(1, n + 1) if sum(mass[:r]) <= 0.025), default=None)
    high = min((r for r in range(1, n + 1) if sum(mass[r:]) <= 0.025), default=None)
    if low is None or high is None:
        assert interval is None
    else:
        assert interval is not None and (interval.low, interval.high) == (low, high)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = Random(11)
    hits = 0
    for _ in range(600):
        samples = sorted(random.expovariate(1) for _ in range(100))
        interval = percentile_interval(samples, 0.9)
        assert interval is not None
        hits += interval.low <= -math.log(0.1) <= interval.high
    assert hits / 600 >= 0.93  # at least 0.95, less the simulation's own spread


def test_an_interval_of_a_large_sample_is_quick_and_sane() -> None:
    samples = [float(n) for n in range(400_000)]
    interval = percentile_interval(samples, 0.99)
    assert interval is not None
    assert interval.low < 0.99 * 400_000 < interval.high
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * math.sqrt(400_000 * 0.99 * 0.01), rel=0.02)


@given(st.integers(1, 500), st.data())
def test_wilson_covers_its_share(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = wilson_interval(successes, trials)
    assert interval is not None
    assert 0 <= interval.low <= successes / trials <= interval.high <= 1


def test_wilson_against_its_paper() -> None:
    interval = wilson_interval(10, 20)
    assert interval is not None
    assert interval.low == pytest.approx(0.2993, abs=1e-4)
    assert interval.high == pytest.approx(0.7007, abs=1e-4)
    assert wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(3, 2)
