"""Racing, screening, paired slices, Pareto fronts and live knobs: each by its law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from tools.search import Observation, Problem, reason_to_stop, strategy
from tools.search.candidates import candidates, walked
from tools.search.live import changes_live, fewest_relaunches
from tools.search.pareto import dominates, front, hypervolume, knee, scalarised
from tools.search.racing import race, wealth
from tools.search.screening import ranking, screening_pairs
from tools.search.slices import Pair, paired_slices
from tools.search.turn import Turn
from tools.targets.knobs import Config, Knob, KnobSpace, Value

POINTS = st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float)), min_size=1, max_size=12)


@given(st.integers(0, 14).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wealth_is_the_mixture_that_it_is_said_to_be(counts: tuple[int, int]) -> None:
    worse, slices = counts
    mixture, _ = quad(lambda p: 2 * (2 * p) ** worse * (2 - 2 * p) ** (slices - worse), 0.5, 1)
    assert wealth(worse, slices) == pytest.approx(mixture, rel=1e-6)


@given(st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_fair_slice_leaves_the_wealth_as_it_is_on_average(counts: tuple[int, int]) -> None:
    worse, slices = counts
    after = (wealth(worse + 1, slices + 1) + wealth(worse, slices + 1)) / 2
    assert after == pytest.approx(wealth(worse, slices), rel=1e-9)


def test_an_equal_trial_is_hardly_ever_stopped_and_a_bad_one_soon() -> None:
    chance, stopped = Random(1), 0
    for _ in range(120):
        # Every slice on the margin itself: the worst case of "no worse".
        pairs = [Pair(math.exp(0.1 + chance.gauss(0, 0.05)), 1.0, 10) for _ in range(20)]
        stopped += race(pairs, lower_is_better=True, noise=0.0, margin=math.expm1(0.1)).stop
    assert stopped <= 120 * 0.05
    bad = race([Pair(1.5, 1.0, 10)] * 7, lower_is_better=True, noise=0.02)
    assert bad.stop
    assert bad.sentence == "stopped early: 7 of 7 slices worse than the best by more than 8.5%"
    assert not race([Pair(1.5, 1.0, 10)] * 7, lower_is_better=False, noise=0.02).stop
    assert not race([Pair(1.05, 1.0, 10)] * 40, lower_is_better=True, noise=0.02).stop


def test_slices_are_of_the_same_requests_and_whole() -> None:
    theirs = dict.fromkeys(range(10), 2.0)
    mine = {number: float(number) for number in (0, 1, 2, 3, 5, 6, 7, 8)}
    assert paired_slices(mine, theirs, 10, 2) == (Pair(0.5, 2.0, 2), Pair(2.5, 2.0, 2), Pair(6.5, 2.0, 2))
    with pytest.raises(ValueError, match="1 or more"):
        paired_slices(mine, theirs, 10, 0)


@given(st.permutations(range(1, 9)))
def test_the_share_of_agreeing_pairs_is_kendalls(order: Sequence[int]) -> None:
    pairs = [(float(cheap), float(full)) for full, cheap in enumerate(order, start=1)]
    inversions = sum(a > b for a, b in itertools.combinations(order, 2))
    found = ranking(pairs, tolerance=0.0)
    assert found.tau == pytest.approx(1 - 4 * inversions / (8 * 7))
    assert 0 <= found.at_least <= found.agreeing


def test_cheap_trials_are_proven_only_by_many_configs_that_agree() -> None:
    def agreeing(configs: int) -> float:
        return ranking([(float(n), float(n)) for n in range(1, configs + 1)], tolerance=0.0).at_least

    assert agreeing(10) == pytest.approx(0.05 ** (1 / 5), abs=1e-6)
    assert agreeing(10) < 0.8 < agreeing(30)
    chance = Random(3)
    drawn = [[(chance.random(), float(n)) for n in range(1, 31)] for _ in range(100)]
    assert sum(ranking(pairs, tolerance=0.0, wanted=0.5).proven for pairs in drawn) <= 5
    assert ranking([(2.0, 1.0), (1.0, 1.01)], tolerance=0.02).agreeing == 1.0
    assert not ranking([(1.0, 1.0)], tolerance=0.0).proven


def test_screening_pairs_are_configs_that_were_measured_both_ways() -> None:
    knobs = KnobSpace({"seats": Knob("seats", "int", 1, "", low=1, high=8)})
    problem = Problem(knobs, knobs.resolve({}), lower_is_better=True, seed=0)
    history = [
        Observation({"seats": 2}, 5.0, feasible=True, fidelity=0.25),
        Observation({"seats": 2}, 6.0, feasible=True),
        Observation({"seats": 4}, 7.0, feasible=True, fidelity=0.25),
        Observation({"seats": 1}, 3.0, feasible=True),
        Observation({}, 2.0, feasible=True, fidelity=0.25),
    ]
    assert screening_pairs(problem, history, 0.25) == [(5.0, 6.0), (2.0, 3.0)]


@given(POINTS)
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    found = front(points)
    undominated = {point for point in points if not any(dominates(other, point) for other in points)}
    assert {points[place] for place in found} == undominated
    assert len(found) == len(undominated)


@given(POINTS)
def test_the_hypervolume_is_the_area_of_the_cells_that_are_dominated(points: list[tuple[float, float]]) -> None:
    cells = itertools.product(range(10), range(10))
    covered = sum(any(point[0] <= x and point[1] <= y for point in points) for x, y in cells)
    assert hypervolume(points, (10.0, 10.0)) == covered


@given(POINTS, st.integers(0, 30))
def test_knee_and_scalar_keep_to_the_front(points: list[tuple[float, float]], number: int) -> None:
    assert knee(points) in front(points)
    scalars = scalarised([*points, None], number)
    assert scalars.pop() is None
    least = min(value for value in scalars if value is not None)
    chosen = {points[place] for place, value in enumerate(scalars) if value == least}
    assert chosen & {points[place] for place in front(points)}


def test_the_knee_bends_and_the_turns_walk_along_the_front() -> None:
    points = [(0.0, 10.0), (1.0, 2.0), (9.0, 1.0), (10.0, 0.0)]
    assert knee(points) == 1
    with pytest.raises(ValueError, match="at least one"):
        knee([])
    scalars = [[value for value in scalarised(points, number) if value is not None] for number in range(7)]
    assert {min(range(4), key=values.__getitem__) for values in scalars} >= {0, 1, 3}


LIVE = KnobSpace(
    {
        "seats": Knob("seats", "int", 1, "", low=1, high=4, live=True),
        "chunk": Knob("chunk", "int", 1, "", low=1, high=4, live=True),
        "dtype": Knob("dtype", "choice", "fp32", "", choices=("fp32", "bf16")),
    }
)
CONFIGS = st.builds(
    lambda seats, chunk, dtype: Config({"seats": seats, "chunk": chunk, "dtype": dtype}),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from(("fp32", "bf16")),
)


def relaunches(standing: Config | None, configs: Sequence[Config]) -> int:
    steps = itertools.pairwise([standing, *configs])
    return sum(one is None or not changes_live(LIVE, one, other) for one, other in steps if other is not None)


@given(st.none() | CONFIGS, st.lists(CONFIGS, max_size=5))
def test_no_order_relaunches_less_often(standing: Config | None, configs: list[Config]) -> None:
    order = fewest_relaunches(LIVE, standing, configs)
    assert sorted(order) == list(range(len(configs)))
    least = min(relaunches(standing, shuffled) for shuffled in itertools.permutations(configs))
    assert relaunches(standing, [configs[place] for place in order]) == least


def test_an_unknown_knob_needs_a_relaunch() -> None:
    standing = Config({"seats": 1, "flag": "a"})
    assert changes_live(LIVE, standing, standing.patched({"seats": 2}))
    assert not changes_live(LIVE, standing, standing.patched({"flag": "b"}))


def many(knobs: int) -> Problem:
    made = {f"seats_{n}": Knob(f"seats_{n}", "int", 64, "", low=1, high=4096, log=True) for n in range(knobs)}
    space = KnobSpace(made)
    return Problem(space, space.resolve({}), lower_is_better=True, seed=3, noise=0.005)


def some_trials(problem: Problem, count: int, baselines: int = 1) -> list[Observation]:
    chance = Random(problem.seed)
    known = [Observation({}, 100 + chance.random(), feasible=True, from_search=False) for _ in range(baselines)]
    drawn = [problem.space.draw(chance) for _ in range(count)]
    return [*known, *(Observation(patch, 100 + chance.gauss(0, 9), feasible=True) for patch in drawn)]


def test_many_knobs_leave_a_kernel_that_can_be_solved() -> None:
    problem = many(70)
    assert strategy("guided", problem).ask(some_trials(problem, 12, baselines=4)) is not None


def test_whether_to_stop_looks_around_the_best_few_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = many(8)
    history, around = some_trials(problem, 12), []

    def noted(turn: Turn, standing: Sequence[Mapping[str, Value]]) -> list[dict[str, Value]]:
        around.append(list(standing))
        return candidates(turn, standing)

    monkeypatch.setattr("tools.search.stopping.candidates", noted)
    reason_to_stop(problem, history)
    ranked = sorted(history, key=lambda seen: seen.objective or 0.0)
    assert around == [walked(Turn(problem, history))] == [[seen.patch for seen in ranked[:2]]]
