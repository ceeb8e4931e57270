"""Where a confirmation goes on, and where and why it stops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from verifiers.statistics.blocks import BlockValues
from verifiers.statistics.foresight import foreseen_power, least_blocks, log_gain, needed_blocks
from verifiers.statistics.look import Design, Look, look
from verifiers.statistics.rail import rail

DESIGN = Design(lower_is_better=True, min_effect=0.05, target=0.10, level=0.01, most_blocks=10)


def measured(random: np.random.Generator, gain: float, noise: float, level: float = 100.0) -> BlockValues:
    a, b, c, d = level * np.exp(random.normal(0, noise, 4))
    return BlockValues((a, b), (c * (1 - gain), d * (1 - gain)))


def gate(random: np.random.Generator, gain: float, noise: float, design: Design = DESIGN) -> Look:
    """A confirmation to its end."""
    blocks: list[BlockValues] = []
    while True:
        blocks.append(measured(random, gain, noise, level=50.0 + 50.0 * len(blocks)))
        found = look(blocks, design)
        if found.decision != "go_on":
            return found


def test_of_nulls_that_are_looked_at_after_every_block_hardly_any_are_accepted() -> None:
    random = np.random.default_rng(11)
    ends = [gate(random, 0.0, 0.08) for _ in range(150)]
    assert sum(end.decision == "accept" for end in ends) <= 4  # of 150 at level .01, five would be a chance of 2 %
    assert np.mean([end.blocks for end in ends]) < 6
    futile = [end for end in ends if "which was looked for, is excluded" in end.why]
    assert futile and {end.decision for end in futile} == {"exhausted"}


def test_true_gains_are_accepted_and_large_ones_at_once() -> None:
    random = np.random.default_rng(12)
    ends = [gate(random, 0.10, 0.04) for _ in range(40)]
    assert sum(end.decision == "accept" for end in ends) >= 36
    large = [gate(random, 0.40, 0.04) for _ in range(10)]
    assert {(end.decision, end.blocks) for end in large} == {("accept", 3)}


def test_a_metric_that_should_rise_is_turned() -> None:
    random = np.random.default_rng(3)
    blocks = [measured(random, -0.5, 0.01) for _ in range(3)]  # values half as large again
    assert look(blocks, replace(DESIGN, lower_is_better=False)).decision == "accept"
    assert look(blocks, DESIGN).decision == "reject"


def test_a_sure_gain_that_is_too_small_is_rejected() -> None:
    random = np.random.default_rng(4)
    found = look([measured(random, 0.02, 0.002) for _ in range(4)], DESIGN)
    assert found.wealth > 100 and found.decision == "reject" and "least effect" in found.why


def test_where_what_is_left_cannot_bring_the_evidence_it_stops() -> None:
    even = [BlockValues((1.0, 1.3), (1.0, 1.3))]
    found = look(even, replace(DESIGN, level=0.05, most_blocks=2))
    assert found.decision == "exhausted" and "can't bring" in found.why


def test_at_the_most_blocks_it_tells_how_many_more_it_would_take() -> None:
    random = np.random.default_rng(8)
    for _ in range(30):
        blocks = [measured(random, 0.07, 0.08) for _ in range(3)]
        found = look(blocks, replace(DESIGN, most_blocks=3))
        if found.decision == "exhausted" and found.further is not None:
            assert found.further % 2 == 0 and found.further > 0
            return
    pytest.fail("no simulated confirmation was inconclusive")


def test_nothing_is_settled_before_a_block_and_never_below_the_smallest_p() -> None:
    assert look([], DESIGN).decision == "go_on"
    assert look([], replace(DESIGN, most_blocks=2)).decision == "exhausted"
    huge = [BlockValues((100.0, 101.0), (1.0, 1.1))] * 2
    assert look(huge, DESIGN).decision == "go_on"


def test_a_guardrail_in_doubt_is_measured_on_and_a_broken_one_ends_it() -> None:
    random = np.random.default_rng(6)
    better = [measured(random, 0.4, 0.01) for _ in range(4)]
    doubtful = rail([measured(random, 0.0, 0.2) for _ in range(4)], True, 0.01)
    kept = rail([measured(random, 0.0, 0.01) for _ in range(4)], True, 0.1)
    broken = rail([measured(random, -0.3, 0.01) for _ in range(4)], True, 0.1)
    assert (doubtful.kept, doubtful.broken, kept.kept, broken.broken) == (False, False, True, True)
    assert look(better, DESIGN, {"tpot": kept}).decision == "accept"
    assert look(better, DESIGN, {"tpot": kept, "e2el": doubtful}).decision == "go_on"
    assert look(better, DESIGN, {"tpot": kept, "e2el": broken}).decision == "reject"
    assert look(better, replace(DESIGN, most_blocks=4), {"e2el": doubtful}).decision == "exhausted"


def test_a_look_says_the_same_as_it_goes_through_json() -> None:
    once = look([BlockValues((1.0, 1.1), (0.9, 1.0))], DESIGN)
    assert math.isinf(once.high) and once.to_json()["high"] is None
    assert once.to_json()["decision"] == "go_on"


@pytest.mark.parametrize(("level", "blocks"), [(0.05, 2), (0.025, 3), (0.01, 3), (1 / 36, 2), (0.001, 4)])
def test_a_level_needs_so_many_blocks(level: float, blocks: int) -> None:
    assert least_blocks(level) == blocks


def test_the_foretold_power_rises_with_blocks_and_gain_and_falls_with_noise() -> None:
    effect, gain = log_gain(0.05, lower_is_better=True), log_gain(0.10, lower_is_better=True)
    by_blocks = [foreseen_power(blocks, gain, effect, 0.05, 0.01) for blocks in range(1, 12)]
    assert by_blocks[:2] == [0.0, 0.0] and by_blocks == sorted(by_blocks) and by_blocks[-1] > 0.95
    assert foreseen_power(8, gain, effect, 0.10, 0.01) < foreseen_power(8, gain, effect, 0.05, 0.01)
    needed = needed_blocks(gain, effect, 0.05, 0.01)
    assert needed is not None and foreseen_power(needed, gain, effect, 0.05, 0.01) >= 0.9
    assert needed_blocks(effect, effect, 0.05, 0.01) is None  # at the least effect itself it's a coin's toss


@pytest.mark.parametrize(("noise", "gain"), [(0.03, 0.10), (0.06, 0.15)])
def test_the_foretold_power_is_about_what_simulated_confirmations_have(noise: float, gain: float) -> None:
    random = np.random.default_rng(17)
    won = np.mean([gate(random, gain, noise).decision == "accept" for _ in range(60)])
    told = foreseen_power(10, log_gain(gain, True), log_gain(0.05, True), noise, 0.01)
    assert abs(won - told) < 0.15
