from itertools import combinations
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.statistics.rank_test import exact_rank_p, hodges_lehmann_ratio, ratio_interval, smallest_p

values = st.integers(1, 12).map(float)
arms = st.tuples(st.lists(values, min_size=2, max_size=5), st.lists(values, min_size=2, max_size=5))


def enumerated_p(baseline: list[float], candidate: list[float]) -> float:
    """The definition: share of all relabellings whose pairwise comparisons favour the candidate at least as much."""

    def wins(candidate_indices: tuple[int, ...]) -> float:
        chosen = [pooled[i] for i in candidate_indices]
        rest = [v for i, v in enumerate(pooled) if i not in candidate_indices]
        return sum((b > c) + 0.5 * (b == c) for c in chosen for b in rest)

    pooled = [*baseline, *candidate]
    observed = wins(tuple(range(len(baseline), len(pooled))))
    labellings = [wins(chosen) for chosen in combinations(range(len(pooled)), len(candidate))]
    return sum(w >= observed for w in labellings) / len(labellings)


@settings(max_examples=80, deadline=None)
@given(arms)
def test_p_is_the_share_of_relabellings_at_least_as_extreme_ties_included(
    sample: tuple[list[float], list[float]],
) -> None:
    baseline, candidate = sample
    assert exact_rank_p(baseline, candidate) == pytest.approx(enumerated_p(baseline, candidate))


@pytest.mark.parametrize(("per_arm", "p"), [(3, 0.05), (4, 0.0143), (5, 0.00397), (6, 0.00108)])
def test_complete_separation_reaches_the_smallest_p(per_arm: int, p: float) -> None:
    worse = [10.0 + i for i in range(per_arm)]
    better = [1.0 + i for i in range(per_arm)]
    assert exact_rank_p(worse, better) == pytest.approx(smallest_p(per_arm)) == pytest.approx(p, rel=0.01)
    assert exact_rank_p(better, worse) == 1.0


def test_identical_arms_show_nothing() -> None:
    assert exact_rank_p([5.0] * 4, [5.0] * 4) == 1.0


@settings(max_examples=60, deadline=None)
@given(arms)
def test_the_ratio_lies_in_its_interval_and_scales_with_the_candidate(sample: tuple[list[float], list[float]]) -> None:
    baseline, candidate = sample
    ratio = hodges_lehmann_ratio(baseline, candidate)
    low, high = ratio_interval(baseline, candidate, alpha=0.05)
    assert low <= ratio <= high
    assert ratio == median(c / b for b in baseline for c in candidate)
    assert hodges_lehmann_ratio(baseline, [3 * c for c in candidate]) == pytest.approx(3 * ratio)


def test_four_launches_an_arm_leave_the_ends_of_the_95_percent_interval_at_the_extreme_ratios() -> None:
    # U <= 0 has probability 1/70 = 0.014 <= 0.025, U <= 1 has 0.029: the interval spans all 16 ratios but none.
    low, high = ratio_interval([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 5.0, 6.0], alpha=0.05)
    assert (low, high) == (2 / 4, 6 / 1)
