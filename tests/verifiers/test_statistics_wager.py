"""The wager is fair whatever the values; the exact tests are what their definitions say."""

from __future__ import annotations

import math
from itertools import combinations, product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.statistics.blocked import aligned_rank_p, blocked_interval, blocked_ratio, smallest_blocked_p
from verifiers.statistics.blocks import BlockValues, noise, noise_of_one
from verifiers.statistics.holm import holm
from verifiers.statistics.rail import LEVEL
from verifiers.statistics.wager import wealth
from verifiers.statistics.wins import wealth_by_wins

four = st.lists(st.floats(-3, 3, allow_nan=False), min_size=4, max_size=4)
ties = st.lists(st.integers(0, 3).map(float), min_size=4, max_size=4)


def dealt(values: list[float], candidate: tuple[int, ...]) -> BlockValues:
    mine = [values[i] for i in candidate]
    rest = [values[i] for i in range(4) if i not in candidate]
    return BlockValues((rest[0], rest[1]), (mine[0], mine[1]))


LABELLINGS = list(combinations(range(4), 2))


def all_dealings(blocks: list[list[float]]) -> list[list[BlockValues]]:
    return [
        [dealt(values, chosen) for values, chosen in zip(blocks, labels, strict=True)]
        for labels in product(LABELLINGS, repeat=len(blocks))
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(four, min_size=1, max_size=3), st.floats(0.01, 0.7))
def test_over_all_dealings_of_any_values_the_wealth_is_one_on_average(blocks: list[list[float]], effect: float) -> None:
    ends = [wealth(dealing, effect)[-1] for dealing in all_dealings(blocks)]
    assert math.fsum(ends) / len(ends) == pytest.approx(1.0, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(ties, min_size=1, max_size=3))
def test_a_wager_on_wins_is_as_fair_and_two_whole_blocks_are_enough_for_it(blocks: list[list[float]]) -> None:
    dealings = all_dealings(blocks)
    assert fmean(wealth_by_wins(dealing) for dealing in dealings) == pytest.approx(1.0)
    whole = [dealt(sorted(values), (0, 1)) for values in ([1.0, 2.0, 3.0, 9.0], [0.1, 7.0, 7.1, 8.0])]
    assert wealth_by_wins(whole) > 1 / LEVEL > wealth_by_wins(whole[:1])


@settings(max_examples=15, deadline=None)
@given(four, four, st.floats(0.02, 0.3))
def test_whatever_the_first_block_held_the_second_bet_is_fair_too(
    first: list[float], second: list[float], effect: float
) -> None:
    for chosen in LABELLINGS:
        before = wealth([dealt(first, chosen)], effect)[-1]
        after = [wealth([dealt(first, chosen), dealt(second, label)], effect)[-1] for label in LABELLINGS]
        assert math.fsum(after) / 6 == pytest.approx(before, rel=1e-6, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(four, min_size=1, max_size=4))
def test_no_wealth_is_above_six_to_the_number_of_blocks(blocks: list[list[float]]) -> None:
    for number, held in enumerate(wealth([dealt(values, (2, 3)) for values in blocks], 0.05), start=1):
        assert 0 <= held <= 6**number * (1 + 1e-9)


def test_clear_blocks_bring_nearly_all_that_blocks_can_bring() -> None:
    clear = [BlockValues((0.0, 0.01), (-0.3, -0.31)), BlockValues((0.2, 0.19), (-0.1, -0.12))]
    assert wealth(clear, 0.05)[-1] > 0.8 * 36
    assert wealth([BlockValues(block.candidate, block.baseline) for block in clear], 0.05)[-1] < 0.01


def test_a_steady_drift_brings_and_costs_nothing() -> None:
    """ABBA under a slope alone: the arms' means agree, so the bet is lost as often as it is won."""
    for slope in (-0.1, 0.05, 0.2):
        drifting = BlockValues((0.0, 3 * slope), (slope, 2 * slope))
        assert wealth([drifting], 0.05)[-1] < 1.5


@settings(max_examples=40, deadline=None)
@given(st.lists(ties, min_size=1, max_size=3))
def test_p_is_the_share_of_dealings_within_blocks_whose_aligned_ranks_favour_the_candidate_as_much(
    blocks: list[list[float]],
) -> None:
    """By brute force, from the definition: align, rank with midranks, sum the candidate's."""
    aligned = [[value - math.fsum(values) / 4 for value in values] for values in blocks]
    pooled = [round(value, 9) for values in aligned for value in values]

    def midrank(value: float) -> float:
        same = round(value, 9)
        return sum(other < same for other in pooled) + (pooled.count(same) + 1) / 2

    def total(labels: tuple[tuple[int, ...], ...]) -> float:
        return sum(midrank(values[i]) for values, chosen in zip(aligned, labels, strict=True) for i in chosen)

    observed = total(((2, 3),) * len(blocks))
    every = [total(labels) for labels in product(LABELLINGS, repeat=len(blocks))]
    expected = sum(one <= observed for one in every) / len(every)
    assert aligned_rank_p([dealt(values, (2, 3)) for values in blocks]) == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(st.lists(four, min_size=1, max_size=3), st.sampled_from([0.01, 0.05, 0.2]))
def test_no_more_dealings_than_alpha_have_a_p_of_at_most_alpha(blocks: list[list[float]], alpha: float) -> None:
    every = [aligned_rank_p(dealing) for dealing in all_dealings(blocks)]
    assert sum(p <= alpha for p in every) / len(every) <= alpha


def test_the_smallest_p_is_reached_by_complete_separation_within_blocks_only() -> None:
    apart = [BlockValues((5.0, 6.0), (1.0, 2.0)), BlockValues((105.0, 106.0), (101.0, 102.0))]
    assert aligned_rank_p(apart) == smallest_blocked_p(2) == pytest.approx(1 / 36)
    assert aligned_rank_p([]) == 1.0


def test_the_ratio_ignores_what_blocks_differ_in() -> None:
    blocks = [BlockValues((100.0, 100.0), (90.0, 90.0)), BlockValues((7.0, 7.0), (6.3, 6.3))]
    assert blocked_ratio(blocks) == pytest.approx(0.9)


def test_one_block_bounds_no_ratio_and_two_do() -> None:
    block = BlockValues((1.0, 1.1), (0.8, 0.9))
    assert blocked_interval([block]) == (0.0, math.inf)
    assert blocked_interval([block, block]) == (0.8 / 1.1, 0.9 / 1.0)


def test_either_end_of_the_interval_misses_the_truth_as_seldom_as_it_says() -> None:
    random = np.random.default_rng(5)
    low_missed = high_missed = 0
    for _ in range(800):
        values = np.exp(random.standard_t(3, (4, 4)) * 0.05)
        values[:, 2:] *= 0.9
        low, high = blocked_interval([BlockValues((a, b), (c, d)) for a, b, c, d in values])
        low_missed += low > 0.9
        high_missed += high < 0.9
    assert max(low_missed, high_missed) <= 0.05 * 800 + 3 * math.sqrt(0.05 * 0.95 * 800)
    assert min(low_missed, high_missed) > 0


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=6), st.floats(0.001, 0.5))
def test_holm_shows_what_the_step_down_procedure_shows(p_values: dict[str, float], alpha: float) -> None:
    shown = set()
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p * (len(p_values) - place) > alpha:
            break
        shown.add(name)
    assert {name for name, p in holm(p_values).items() if p <= alpha} == shown


def test_holm_of_three() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_the_noise_is_that_of_launches_within_arms_and_blocks() -> None:
    random = np.random.default_rng(2)
    blocks = []
    for level in range(400):
        a, b, c, d = np.exp(random.normal(level, 0.05, 4))
        blocks.append(BlockValues((a, b), (c / 2, d / 2)).favourable(True))
    assert noise(blocks) == pytest.approx(0.05, rel=0.1)
    assert noise([]) is None
    assert noise_of_one([100.0, 110.0]) == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert noise_of_one([100.0]) is None and noise_of_one([1.0, 0.0]) is None


@pytest.mark.parametrize("least_effect", [0.002, 0.05, 0.2])
@pytest.mark.parametrize("gain", [0.3, 0.75, 0.95])
def test_a_gain_beyond_all_expectation_convinces_as_soon_as_any(least_effect: float, gain: float) -> None:
    random = np.random.default_rng(9)
    for _ in range(10):
        a, b, c, d = random.normal([0, 0, math.log(1 - gain), math.log(1 - gain)], 0.03)
        assert wealth([BlockValues((a, b), (c, d))] * 2, -math.log(1 - least_effect))[-1] > 20
