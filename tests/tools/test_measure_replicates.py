"""Several trials told as one: means and intervals between them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.replicates import across

values = st.floats(0.01, 1e6)


@given(st.lists(values, min_size=2, max_size=20))
def test_the_mean_lies_between_the_trials_and_in_its_interval(found: list[float]) -> None:
    told = across([{"m": value} for value in found])["m"]
    assert min(found) * 0.999 <= told.mean <= max(found) * 1.001
    assert told.low is not None and told.high is not None
    assert told.low <= told.mean * 1.000001 and told.mean <= told.high * 1.000001
    assert told.trials == len(found)


def test_one_trial_has_no_interval_and_a_missing_metric_is_left_out() -> None:
    assert across([{"a": 3.0}])["a"].low is None
    assert set(across([{"a": 1.0, "b": 0.0}, {"a": 4.0}])) == {"a"}
    assert across([{"a": 1.0}, {"a": 4.0}])["a"].mean == pytest.approx(2.0)  # geometric: a ratio is a difference
    assert across([{"failed": 0.0}, {"failed": 4.0}])["failed"].mean == pytest.approx(2.0)
    assert across([]) == {}


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    chance = random.Random(3)
    held = 0
    for _ in range(2000):
        told = across([{"m": 100 * 2.718281828 ** chance.gauss(0, 0.1)} for _ in range(5)])["m"]
        assert told.low is not None and told.high is not None
        held += told.low <= 100 <= told.high
    assert 0.935 <= held / 2000 <= 0.965


def test_shares_stay_shares_and_counts_are_averaged_as_they_are() -> None:
    told = across([{"slo_attainment": 1.0, "failed": 1.0}, {"slo_attainment": 0.9, "failed": 3.0}])
    share = told["slo_attainment"]
    assert share.mean == pytest.approx(0.95) and share.high == 1.0
    assert told["failed"].mean == pytest.approx(2.0) and told["failed"].low == 0.0
