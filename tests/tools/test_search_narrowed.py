"""A baseline that stands outside the range that its knobs were narrowed to: it is searched around all the same."""

from __future__ import annotations

from importlib.util import find_spec
from random import Random

import pytest

from tools.search import STRATEGIES, Observation, Prior, Problem, strategy
from tools.search.candidates import candidates, neighbours
from tools.search.features import Features
from tools.search.told import study_of
from tools.search.turn import Turn
from tools.targets.knobs import Config, Knob, KnobSpace, Value

KNOBS = KnobSpace(
    {
        "threads": Knob("threads", "int", 4, "", low=0, high=8),
        "share": Knob("share", "float", 0.5, "", low=0.1, high=0.5),
        "policy": Knob("policy", "choice", "fcfs", "", choices=("fcfs",)),
        "seats": Knob("seats", "int", 8, "", low=1, high=64, log=True),
        "cache": Knob("cache", "bool", False, ""),
    }
)
BASELINE = Config({"threads": 16, "share": 0.9, "policy": "priority", "seats": 8, "cache": False})
PROBLEM = Problem(KNOBS, BASELINE, lower_is_better=True, seed=1, priors=(Prior({"cache": True}),))
FIRST = Observation({}, 100.0, feasible=True, from_search=False)
HERE = [name for name in STRATEGIES if name != "smac" or find_spec("smac") is not None]


def fits(name: str, value: Value) -> bool:
    knob = KNOBS[name]
    return value in knob.choices if knob.choices else knob.low is None or knob.low <= float(value) <= (knob.high or 0)


@pytest.mark.parametrize("name", HERE)
def test_every_strategy_searches_within_the_range(name: str) -> None:
    search, history, patches = strategy(name, PROBLEM), [FIRST], []
    for turn in range(8):
        patch = search.ask(history)
        assert patch is not None and patch.items() <= PROBLEM.space.reduce(patch).items()
        assert all(fits(knob, value) for knob, value in patch.items()), patch
        history.append(Observation(patch, 90.0 + turn, feasible=True, seconds=10.0))
        patches.append(patch)
    assert name == "random" or patches[0] == {"cache": True}


def test_only_the_baselines_own_value_out_there_belongs_to_the_space() -> None:
    assert PROBLEM.space.point({}) == BASELINE.values
    assert PROBLEM.space.point({"threads": 8}) == {**BASELINE.values, "threads": 8}
    assert PROBLEM.space.point({"threads": 15}) is None and PROBLEM.space.point({"share": 0.8}) is None
    assert PROBLEM.space.patch({"threads": 15, "share": 0.6, "policy": "priority"}) == {"share": 0.5}
    assert PROBLEM.space.patch({"threads": 9}) == {"threads": 8}


def test_the_baselines_value_is_a_level_a_draw_and_a_candidate() -> None:
    space, turn = PROBLEM.space, Turn(PROBLEM, [FIRST])
    assert [space.levels(name)[-1] for name in ("threads", "share", "policy")] == [16, 0.9, "priority"]
    assert {"threads": 3} in neighbours(turn, {}) and {"cache": True} in neighbours(turn, {"cache": True, "seats": 16})
    pool = candidates(turn, [])
    assert any("threads" not in patch for patch in pool) and any("threads" in patch for patch in pool)
    draws = [space.draw(Random(seed)) for seed in range(60)]
    assert 0 < sum("threads" not in patch for patch in draws) < 30
    places = Features(space).points([{}, *pool]).place
    assert places.min() >= 0 and places.max() <= 1


def test_a_space_that_is_finite_holds_the_baseline() -> None:
    problem = Problem(KNOBS.only(frozenset({"threads", "cache"})), BASELINE, lower_is_better=True, seed=1)
    patches = list(problem.space.every_patch())
    assert {} in patches and {"cache": True} in patches and len(patches) == problem.space.size


def test_optuna_is_told_of_the_baseline() -> None:
    from optuna.samplers import RandomSampler

    (told,) = study_of(PROBLEM, [FIRST], RandomSampler(seed=0), whole=True).trials
    assert told.params == BASELINE.values
