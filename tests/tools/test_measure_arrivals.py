"""Arrivals: every open schedule ascends, keeps its rate, and has the gaps that its kind promises."""

from __future__ import annotations

import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.stats import kstest, spearmanr

from tools.measure.arrivals import ArrivalSpec, mean_rate_rps, schedule

ADAPTER: TypeAdapter[ArrivalSpec] = TypeAdapter(ArrivalSpec)
RATED = (
    {"kind": "poisson", "rate_rps": 5},
    {"kind": "constant", "rate_rps": 5},
    {"kind": "gamma", "rate_rps": 5, "cv": 0.4},
    {"kind": "gamma", "rate_rps": 5, "cv": 3},
    {"kind": "ramp", "from_rps": 2, "to_rps": 8},
    {"kind": "ramp", "from_rps": 10, "to_rps": 0},
    {"kind": "renewal", "rate_rps": 5, "gaps": [0, 0.1, 0.5, 3, 9], "persistence": 0.5},
)


def gaps_of(moments: tuple[float, ...]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


def moments(spec: object, starts: int, seed: int = 1) -> tuple[float, ...]:
    found = schedule(ADAPTER.validate_python(spec), starts, seed)
    assert found is not None
    return found


@given(st.sampled_from(RATED), st.integers(1, 300), st.integers(0, 2**60))
def test_open_schedules_ascend_and_keep_their_rate(spec: dict[str, object], starts: int, seed: int) -> None:
    due = moments(spec, starts, seed)
    assert len(due) == starts and due[0] >= 0
    assert all(earlier <= later for earlier, later in pairwise(due))
    rate = mean_rate_rps(ADAPTER.validate_python(spec))
    assert rate == 5
    assert due[-1] <= starts / rate * (1 + 1e-9)
    assert due == moments(spec, starts, seed)


def test_closed_loops_and_bursts_have_no_rate() -> None:
    closed = ADAPTER.validate_python({"kind": "closed", "concurrency": 2})
    assert schedule(closed, 9, 1) is None and mean_rate_rps(closed) is None
    assert moments({"kind": "burst"}, 9) == (0.0,) * 9


def test_poisson_gaps_are_memoryless() -> None:
    gaps = gaps_of(moments({"kind": "poisson", "rate_rps": 10}, 4000))
    assert kstest(gaps, "expon", args=(0, 0.1)).pvalue > 0.01


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_gamma_gaps_have_their_coefficient_of_variation(cv: float) -> None:
    gaps = gaps_of(moments({"kind": "gamma", "rate_rps": 4, "cv": cv}, 4000))
    assert statistics.stdev(gaps) / statistics.fmean(gaps) == pytest.approx(cv, rel=0.05)


def test_a_ramp_goes_from_one_rate_to_the_other() -> None:
    due = np.array(moments({"kind": "ramp", "from_rps": 2, "to_rps": 18}, 20_000))
    counted, _ = np.histogram(due, bins=10, range=(0, 2000))
    expected = np.linspace(2, 18, 21)[1::2] * 200
    assert counted == pytest.approx(expected, rel=0.1)


def test_renewal_gaps_are_those_of_the_log_and_cluster_as_they_did() -> None:
    quantiles = [0, 0.05, 0.1, 0.3, 1, 2, 8]
    gaps = gaps_of(moments({"kind": "renewal", "rate_rps": 2, "gaps": quantiles, "persistence": 0.6}, 5000))
    mean = statistics.fmean(gaps)
    scale = statistics.fmean((a + b) / 2 for a, b in pairwise(quantiles))
    for share, quantile in zip(np.linspace(0, 1, 7)[1:-1], quantiles[1:-1], strict=True):
        assert np.quantile(gaps, share) / mean == pytest.approx(quantile / scale, rel=0.05)
    assert spearmanr(gaps[:-1], gaps[1:]).statistic == pytest.approx(0.6, abs=0.05)


def test_a_season_repeats_itself() -> None:
    season = {"period_s": 100, "weights": [1, 0, 3, 4]}
    spec = {"kind": "renewal", "rate_rps": 8, "gaps": [1, 1], "season": season}
    due = np.array(moments(spec, 8000))
    counted, _ = np.histogram(due % 100, bins=4, range=(0, 100))
    assert counted / 8000 == pytest.approx(np.array([1, 0, 3, 4]) / 8, abs=0.01)
    assert due[-1] == pytest.approx(1000, rel=0.01)


def test_a_replay_keeps_its_moments_at_any_speed() -> None:
    spec = {"kind": "replay", "times_s": [7, 5, 6, 11], "speed": 2}
    assert moments(spec, 4) == (0.0, 0.5, 1.0, 3.0)
    assert moments(spec, 2) == (0.0, 0.5)
    with pytest.raises(ValueError, match="at most 4 starts"):
        moments(spec, 5)
