"""Marginal effects: what each knob did on average, with how sure that is."""

from __future__ import annotations

import random

import pytest

from agents.marginal import marginal_effects
from tests.agents.views import make_view, trial


def test_the_knob_that_matters_comes_first_and_with_its_error() -> None:
    draw = random.Random(3)
    trials = [trial("b", {}, 1000.0, source="baseline")]
    for number in range(60):
        patch = {"max_num_seqs": draw.randint(1, 512), "num_threads": draw.randint(0, 8)}
        fast = patch["max_num_seqs"] > 200
        trials.append(trial(f"t{number}", patch, (500.0 if fast else 1000.0) * draw.gauss(1, 0.02)))
    found = marginal_effects(make_view({}, *trials, noise=0.02), most=1)
    assert list(found) == ["max_num_seqs"]
    low, high = sorted(found["max_num_seqs"], key=lambda effect: effect.gain)
    assert low.values.startswith("<=") and high.values.startswith(">")
    assert low.trials + high.trials == 61
    assert high.gain - low.gain > 3 * (high.error + low.error)
    assert min(high.error, low.error) >= 0.02 / 61**0.5


def test_few_values_stand_by_themselves_and_failures_say_nothing_of_the_gain() -> None:
    trials = [
        trial("b", {}, 1000.0, source="baseline"),
        trial("t1", {"enable_prefix_caching": False}, 1200.0),
        trial("t2", {"block_size": 32}, 900.0),
        trial("t3", {"block_size": 64}, None),
    ]
    found = marginal_effects(make_view({}, *trials, noise=0.05), most=9)
    assert {effect.values: effect.trials for effect in found["block_size"]} == {"16": 2, "32": 1}
    assert {e.values: e.gain for e in found["enable_prefix_caching"]}["false"] == pytest.approx(-0.2)
    assert "max_num_seqs" not in found, "it never changed"


def test_without_a_measured_baseline_there_is_no_gain() -> None:
    assert marginal_effects(make_view({}, trial("b", {}, None, source="baseline")), most=9) == {}
