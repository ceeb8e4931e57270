from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.statistics.rank_test import exact_rank_p

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
    assert exact_rank_p(worse, better) == pytest.approx(p, rel=0.01)
    assert exact_rank_p(better, worse) == 1.0


def test_identical_arms_show_nothing() -> None:
    assert exact_rank_p([5.0] * 4, [5.0] * 4) == 1.0
