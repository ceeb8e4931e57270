"""What every strategy promises: it never repeats itself, a replay gives the same answers, and it learns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.canonical import digest
from tools.errors import UserError
from tools.search import (
    STRATEGIES,
    Forecast,
    Observation,
    Prior,
    Problem,
    Region,
    SearchSpace,
    Strategy,
    reason_to_stop,
    recommended,
    strategy,
    worth_repeating,
)
from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value

SPACE = KnobSpace(
    {
        knob.name: knob
        for knob in (
            Knob("seats", "int", 32, "", low=1, high=512, log=True),
            Knob("chunk_tokens", "int", 512, "", low=16, high=16384, log=True),
            Knob("block_size", "choice", 16, "", choices=(8, 16, 32, 64)),
            Knob("prefix_cache", "bool", True, ""),
            Knob("device", "choice", "cpu", "", choices=("cpu", "cuda"), tunable=False),
        )
    }
)
BASELINE = SPACE.resolve({"seats": 1, "chunk_tokens": 16384, "prefix_cache": False})
HERE = [name for name in STRATEGIES if name != "smac" or find_spec("smac") is not None]
QUICK = [name for name in HERE if name not in ("gp", "smac")]
"Strategies whose answers cost little; the others have one test of their own."

Surface = Callable[[Mapping[str, Value]], float]
Crash = Callable[[Mapping[str, Value]], bool]


def latency_ms(patch: Mapping[str, Value]) -> float:
    """A smooth bowl with its bottom at 32 seats and 512 tokens; the cache is worth a fixed share."""
    point = {**BASELINE.values, **patch}
    seats, chunk = float(point["seats"]), float(point["chunk_tokens"])
    bowl = math.log2(seats / 32) ** 2 + math.log2(chunk / 512) ** 2
    return (100 + 40 * bowl) * (0.6 if point["prefix_cache"] else 1.0)


def out_of_memory(patch: Mapping[str, Value]) -> bool:
    point = {**BASELINE.values, **patch}
    return float(point["seats"]) * float(point["chunk_tokens"]) > 32 * 2048


def observe(patch: Mapping[str, Value], surface: Surface = latency_ms, crash: Crash = out_of_memory) -> Observation:
    if crash(patch):
        return Observation(patch, None, feasible=False, kind="oom")
    return Observation(patch, surface(patch), feasible=True)


def made(name: str, seed: int = 0, **more: Any) -> Strategy:
    return strategy(name, Problem(SPACE, BASELINE, lower_is_better=True, seed=seed, **more))


def searched(name: str, seed: int, turns: int, surface: Surface = latency_ms) -> list[Observation]:
    search, history = made(name, seed), [Observation({}, surface({}), feasible=True, from_search=False)]
    for _ in range(turns):
        patch = search.ask(history)
        assert patch is not None
        history.append(observe(patch, surface))
    return history


def best(history: list[Observation]) -> float:
    return min(seen.objective for seen in history if seen.objective is not None)


@pytest.mark.parametrize("name", QUICK)
def test_the_same_history_gives_the_same_patch_and_none_is_tried_twice(name: str) -> None:
    history = searched(name, seed=3, turns=7)
    again = made(name, seed=3)
    for turn, seen in enumerate(history[1:], start=1):
        assert again.ask(history[:turn]) == seen.patch
    assert len({digest(dict(seen.patch)) for seen in history}) == len(history)


@pytest.mark.parametrize("name", [name for name in HERE if name not in QUICK])
def test_a_dear_strategy_keeps_the_same_promises(name: str) -> None:
    class Formula:
        def forecast(self, config: Config) -> Forecast:
            return Forecast(feasible=not out_of_memory(config.values), kind="oom")

    search, again = (made(name, seed=3, oracle=Formula(), priors=(Prior({"seats": 512}),)) for _ in range(2))
    history = [observe({}), *(observe(seen.patch) for seen in searched("random", 3, 4)[1:])]
    patch = search.ask(history)
    assert patch is not None
    assert patch == again.ask(history)
    assert not out_of_memory(patch)
    assert digest(patch) not in {digest(dict(seen.patch)) for seen in history}


@pytest.mark.parametrize("name", QUICK)
def test_another_seed_searches_elsewhere(name: str) -> None:
    assert [seen.patch for seen in searched(name, 1, 4)] != [seen.patch for seen in searched(name, 2, 4)]


@pytest.mark.parametrize("name", QUICK)
def test_a_patch_names_only_tunable_knobs_that_differ_from_the_baseline(name: str) -> None:
    for seen in searched(name, seed=5, turns=6)[1:]:
        for knob, value in seen.patch.items():
            assert SPACE[knob].tunable
            assert SPACE[knob].check(value) != BASELINE.values[knob]


@pytest.mark.parametrize("name", ["random", "tpe", "guided"])
def test_a_space_that_is_used_up_says_so(name: str) -> None:
    small = SPACE.only(frozenset({"block_size", "prefix_cache"}))
    search = strategy(name, Problem(small, BASELINE, lower_is_better=True, seed=0))
    history: list[Observation] = []
    while (patch := search.ask(history)) is not None:
        history.append(observe(patch))
        assert len(history) < 8
    assert len(history) == 7


@pytest.mark.parametrize("name", QUICK)
def test_what_the_oracle_refuses_is_never_proposed(name: str) -> None:
    class Formula:
        def forecast(self, config: Config) -> Forecast:
            return Forecast(feasible=not out_of_memory(config.values), kind="oom")

    search, history = made(name, oracle=Formula(), priors=(Prior({"seats": 512}),)), [observe({})]
    for _ in range(6):
        patch = search.ask(history)
        assert patch is not None
        assert not out_of_memory(patch)
        history.append(observe(patch))


@pytest.mark.parametrize("name", ["tpe", "guided"])
def test_priors_come_first_the_heaviest_before_all_and_do_not_narrow_the_space(name: str) -> None:
    priors = (Prior({"seats": 32}), Prior({"seats": 32, "prefix_cache": True}, weight=2.0))
    search, history = made(name, priors=priors), [observe({})]
    for _ in range(7):
        patch = search.ask(history)
        assert patch is not None
        history.append(observe(patch))
    assert [history[1].patch, history[2].patch] == [priors[1].patch, priors[0].patch]
    assert any("chunk_tokens" in seen.patch or "block_size" in seen.patch for seen in history[3:])


def test_a_guess_is_not_tried_unasked() -> None:
    guess = {"seats": 32, "prefix_cache": True}
    start = [observe({})]
    assert made("guided", priors=(Prior(guess, weight=0.51),)).ask(start) == guess
    assert made("guided", priors=(Prior(guess, weight=0.5),)).ask(start) == made("guided").ask(start) != guess


def test_guided_finds_in_few_trials_what_others_miss() -> None:
    def median(name: str) -> float:
        return statistics.median(best(searched(name, seed, 15)) for seed in range(3))

    assert median("guided") < 1.1 * 60 < min(median("tpe"), median("random"))


def test_an_infeasible_region_is_learned_from_the_crashes_alone() -> None:
    """Every config that runs is as good as another, so nothing but the crashes tells them apart."""

    def crashes(name: str) -> int:
        histories = [searched(name, seed, 16, surface=lambda patch: 100.0) for seed in range(3)]
        return sum(not seen.feasible for history in histories for seen in history[5:])

    assert crashes("guided") < 0.75 * crashes("random")


@pytest.mark.parametrize("name", ["tpe", "guided"])
def test_a_missed_promise_is_avoided_though_its_objective_is_best(name: str) -> None:
    """The objective falls without end as seats grow; the promise forbids more than eight of them."""
    search, history = made(name, seed=1), list[Observation]()
    for _ in range(20):
        patch = search.ask(history)
        assert patch is not None
        seats = float({**BASELINE.values, **patch}["seats"])
        history.append(Observation(patch, 1000 / seats, feasible=True, constraints={"p95_tpot_ms": (seats - 8) / 8}))
    late = [seen for index, seen in enumerate(history) if index >= 8 and index % 4 != 3]
    assert sum(seen.kept for seen in late) > len(late) / 2


def test_while_no_promise_is_kept_the_search_makes_for_it() -> None:
    search, history = made("guided", seed=1), [Observation({}, 1.0, feasible=True, constraints={"p95_ttft_ms": 31.0})]
    for _ in range(12):
        patch = search.ask(history)
        assert patch is not None
        chunk = float({**BASELINE.values, **patch}["chunk_tokens"])
        history.append(Observation(patch, 1.0, feasible=True, constraints={"p95_ttft_ms": chunk / 128 - 1}))
    assert any(seen.kept for seen in history)


@pytest.mark.parametrize("number", [3, 7, 11])
def test_a_fixed_share_of_turns_ignores_what_was_learned_and_believed(number: int) -> None:
    patches: list[dict[str, Value]] = [{"seats": 2 + turn} for turn in range(number)]
    good = [Observation(patch, 1.0 + turn, feasible=True) for turn, patch in enumerate(patches)]
    bad = [Observation(patch, 9e9 - turn, feasible=turn % 2 == 0) for turn, patch in enumerate(patches)]
    believing = made("guided", priors=(Prior({"seats": 64}),), regions=(Region("seats", low=400),))
    assert made("guided").ask(good) == believing.ask(bad)


@given(st.floats(0.05, 1.0), st.integers(1, 60))
def test_the_explored_share_is_never_below_what_was_asked(share: float, turns: int) -> None:
    from tools.search.guided import Guided

    guided = Guided(Problem(SPACE, BASELINE, lower_is_better=True, seed=0, explore_share=share))
    assert sum(guided.explores(turn) for turn in range(turns)) >= math.floor(turns / math.ceil(1 / share))


def test_a_region_shifts_the_search_and_a_wrong_one_masks_nothing() -> None:
    def shares(region: Region) -> tuple[float, float]:
        search, history = made("guided", seed=2, regions=(region,)), [observe({})]
        for _ in range(15):
            patch = search.ask(history)
            assert patch is not None
            history.append(observe(patch))
        held = [region.holds(seen.patch.get("chunk_tokens", 16384)) for seen in history[1:]]
        return sum(held[:6]) / 6, best(history)

    right, wrong = Region("chunk_tokens", 256, 1024, weight=0.8), Region("chunk_tokens", 8000, None, weight=0.8)
    assert shares(right)[0] >= 0.5
    assert shares(wrong)[1] < 1.5 * 60


def test_a_trial_of_a_knob_that_is_no_longer_tunable_still_counts_as_tried() -> None:
    problem = Problem(SPACE.only(frozenset({"prefix_cache"})), Config({"prefix_cache": False}), True, seed=0)
    for name in ("random", "tpe", "guided"):
        assert strategy(name, problem).ask([Observation({"prefix_cache": True}, 1.0, feasible=True)]) is None


def test_what_cannot_be_searched_is_refused_by_name() -> None:
    unbounded = KnobSpace({"depth": Knob("depth", "int", 1, "")})
    with pytest.raises(KnobError, match="depth"):
        strategy("guided", Problem(unbounded, Config({"depth": 1}), True, seed=0)).ask([])
    with pytest.raises(UserError, match="expected one of random, tpe"):
        made("annealing")
    with pytest.raises(ValueError, match="explore_share"):
        made("guided", explore_share=0.0)
    if find_spec("smac") is None:
        with pytest.raises(UserError, match="pip install"):
            made("smac")


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), turns=st.integers(1, 5), crash_share=st.floats(0, 1), sign=st.sampled_from([1, -1]))
def test_every_answer_is_a_config_that_the_knobs_accept(seed: int, turns: int, crash_share: float, sign: int) -> None:
    chance, search = Random(seed), made("guided", seed)
    history: list[Observation] = []
    for _ in range(turns):
        patch = search.ask(history)
        assert patch
        SPACE.resolve({**BASELINE.values, **patch})
        crashed = chance.random() < crash_share
        history.append(Observation(patch, None if crashed else sign * chance.random(), feasible=not crashed))


@given(st.integers(1, 512))
def test_rounding_keeps_small_numbers_and_moves_none_by_more_than_an_eighth(seats: int) -> None:
    space = SearchSpace(SPACE, SPACE.resolve({"seats": 1}))
    rounded = float(space.patch({"seats": seats}).get("seats", 1))
    assert abs(rounded - seats) <= seats / 8
    assert seats > 8 or rounded == seats


def noisy(history: list[Observation], share: float) -> list[Observation]:
    chance = Random(0)
    return [
        Observation(seen.patch, seen.objective * math.exp(chance.gauss(0, share)), feasible=True)
        for seen in history
        if seen.objective is not None
    ]


def test_it_says_when_nothing_is_left_to_gain_and_not_before() -> None:
    problem = Problem(SPACE, BASELINE, lower_is_better=True, seed=0, noise=0.02, min_effect=0.01)
    assert reason_to_stop(problem, searched("guided", 0, 9)) is None
    flat = [Observation(seen.patch, 100.0, feasible=True) for seen in searched("guided", 0, 16)]
    said = reason_to_stop(problem, noisy(flat, 0.02))
    assert said is not None
    assert said.startswith("expected improvement below noise: ")
    assert said.endswith("noise 2.0%")


def test_a_lucky_launch_is_worth_repeating_and_is_not_what_is_recommended() -> None:
    problem = Problem(SPACE, BASELINE, lower_is_better=True, seed=0, noise=0.05)
    history = searched("guided", 4, 14)
    steady = recommended(problem, history)
    assert steady is not None
    assert latency_ms(steady) == best(history)
    near = {**steady, "block_size": 64}
    lucky = [*history, Observation(near, 0.8 * best(history), feasible=True)]
    assert worth_repeating(problem, lucky) == near
    assert worth_repeating(problem, [*lucky, Observation(near, best(history), feasible=True)]) != near
