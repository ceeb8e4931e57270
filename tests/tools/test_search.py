"""What the search promises: it learns, it explores, it never repeats itself, and a replay gives the same answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.canonical import digest
from tools.search import Observation, Search, SearchSpace
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

Surface = Callable[[Mapping[str, Value]], float]


def latency_ms(patch: Mapping[str, Value]) -> float:
    """A smooth bowl with its bottom at 32 seats and 512 tokens; the cache is worth a fixed share."""
    point = {**BASELINE.values, **patch}
    seats, chunk = float(point["seats"]), float(point["chunk_tokens"])
    bowl = math.log2(seats / 32) ** 2 + math.log2(chunk / 512) ** 2
    return (100 + 40 * bowl) * (0.6 if point["prefix_cache"] else 1.0)


def out_of_memory(patch: Mapping[str, Value]) -> bool:
    point = {**BASELINE.values, **patch}
    return float(point["seats"]) * float(point["chunk_tokens"]) > 32 * 2048


def observe(patch: Mapping[str, Value], surface: Surface = latency_ms) -> Observation:
    if out_of_memory(patch):
        return Observation(patch, None, feasible=False)
    return Observation(patch, surface(patch), feasible=True)


def searched(seed: int, turns: int, *, surface: Surface = latency_ms, explore_share: float = 0.25) -> list[Observation]:
    search = Search(SPACE, BASELINE, lower_is_better=True, seed=seed, explore_share=explore_share)
    history: list[Observation] = []
    for _ in range(turns):
        patch = search.ask(history)
        assert patch is not None
        history.append(observe(patch, surface))
    return history


def drawn(seed: int, turns: int, *, surface: Surface = latency_ms) -> list[Observation]:
    """The same, with every turn drawn at random."""
    return searched(seed, turns, surface=surface, explore_share=1.0)


def test_the_same_history_gives_the_same_patch_in_a_new_search() -> None:
    history = searched(seed=3, turns=9)
    again = Search(SPACE, BASELINE, lower_is_better=True, seed=3)
    for turn, seen in enumerate(history):
        assert again.ask(history[:turn]) == seen.patch


def test_another_seed_searches_elsewhere() -> None:
    assert [seen.patch for seen in searched(1, 4)] != [seen.patch for seen in searched(2, 4)]


def test_no_patch_is_proposed_twice_nor_is_the_baseline() -> None:
    digests = [digest(dict(seen.patch)) for seen in searched(seed=0, turns=25)]
    assert len(set(digests)) == 25
    assert digest({}) not in digests


def test_a_patch_names_only_tunable_knobs_that_differ_from_the_baseline() -> None:
    for seen in searched(seed=5, turns=12):
        for name, value in seen.patch.items():
            assert SPACE[name].tunable
            assert SPACE[name].check(value) != BASELINE.values[name]


def test_an_infeasible_region_is_learned_from_the_crashes_alone() -> None:
    """Every config that runs is as good as another, so nothing but the crashes tells them apart."""

    def flat(patch: Mapping[str, Value]) -> float:
        return 100.0

    def crashes(history: list[Observation]) -> int:
        turns = [seen for index, seen in enumerate(history) if index >= 8 and index % 4 != 3]
        return sum(not seen.feasible for seen in turns)

    learned = sum(crashes(searched(seed, 24, surface=flat)) for seed in range(12))
    random = sum(crashes(drawn(seed, 24, surface=flat)) for seed in range(12))
    assert learned < 0.75 * random


def test_search_beats_random_draws_in_the_median_over_seeds() -> None:
    def best(history: list[Observation]) -> float:
        return min(seen.objective for seen in history if seen.objective is not None)

    learned = statistics.median(best(searched(seed, 24)) for seed in range(7))
    random = statistics.median(best(drawn(seed, 24)) for seed in range(7))
    assert learned < random


def test_priors_come_first_and_do_not_narrow_the_space() -> None:
    priors: list[dict[str, Value]] = [{"seats": 32}, {"seats": 32, "prefix_cache": True}]
    search = Search(SPACE, BASELINE, lower_is_better=True, seed=0, priors=priors)
    history: list[Observation] = []
    asked = []
    for _ in range(10):
        patch = search.ask(history)
        assert patch is not None
        asked.append(patch)
        history.append(observe(patch))
    assert asked[:2] == priors
    assert any("chunk_tokens" in patch or "block_size" in patch for patch in asked[2:])


def test_every_fourth_turn_ignores_what_was_learned() -> None:
    good = [Observation({"seats": n}, 1.0 + n, feasible=True) for n in (2, 3, 4)]
    bad = [Observation({"seats": n}, 9e9, feasible=True) for n in (2, 3, 4)]
    search = Search(SPACE, BASELINE, lower_is_better=True, seed=8, explore_share=0.25)
    assert search.ask(good) == search.ask(bad)


def test_a_missed_promise_is_avoided_though_its_objective_is_best() -> None:
    """The objective falls without end as seats grow; the promise forbids more than eight of them."""
    search = Search(SPACE, BASELINE, lower_is_better=True, seed=1)
    history: list[Observation] = []
    for _ in range(30):
        patch = search.ask(history)
        assert patch is not None
        seats = float({**BASELINE.values, **patch}["seats"])
        history.append(Observation(patch, 1000 / seats, feasible=True, constraints={"p95_tpot_ms": (seats - 8) / 8}))
    late = [seen for index, seen in enumerate(history) if index >= 15 and index % 4 != 3]
    kept = sum(seen.constraints["p95_tpot_ms"] <= 0 for seen in late)
    assert kept > len(late) / 2


def test_a_space_that_is_used_up_says_so() -> None:
    small = SPACE.only(frozenset({"block_size", "prefix_cache"}))
    search = Search(small, BASELINE, lower_is_better=True, seed=0)
    history: list[Observation] = []
    while (patch := search.ask(history)) is not None:
        history.append(observe(patch))
        assert len(history) < 8
    assert len(history) == 7


def test_a_trial_of_a_knob_that_is_no_longer_tunable_still_counts_as_tried() -> None:
    search = Search(
        SPACE.only(frozenset({"prefix_cache"})), Config({"prefix_cache": False}), lower_is_better=True, seed=0
    )
    assert search.ask([Observation({"prefix_cache": True}, 1.0, feasible=True)]) is None


def test_a_number_without_bounds_is_refused_by_name() -> None:
    unbounded = KnobSpace({"depth": Knob("depth", "int", 1, "")})
    with pytest.raises(KnobError, match="depth"):
        Search(unbounded, Config({"depth": 1}), lower_is_better=True, seed=0).ask([])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), turns=st.integers(1, 6), crash_share=st.floats(0, 1))
def test_every_answer_is_a_config_that_the_knobs_accept(seed: int, turns: int, crash_share: float) -> None:
    chance, search = Random(seed), Search(SPACE, BASELINE, lower_is_better=False, seed=seed)
    history: list[Observation] = []
    for _ in range(turns):
        patch = search.ask(history)
        assert patch
        SPACE.resolve({**BASELINE.values, **patch})
        crashed = chance.random() < crash_share
        history.append(Observation(patch, None if crashed else chance.random(), feasible=not crashed))


@given(st.integers(1, 512))
def test_rounding_keeps_small_numbers_and_moves_none_by_more_than_an_eighth(seats: int) -> None:
    space = SearchSpace(SPACE, SPACE.resolve({"seats": 1}))
    rounded = float(space.patch({"seats": seats}).get("seats", 1))
    assert abs(rounded - seats) <= seats / 8
    assert seats > 8 or rounded == seats
