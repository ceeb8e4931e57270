"""Knobs that are in play only beside certain values of others."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.search import Observation, Problem, SearchSpace, strategy
from tools.search.turn import key_of
from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value

KNOBS = KnobSpace(
    {
        knob.name: knob
        for knob in (
            Knob("draft_tokens", "choice", 3, "", choices=(1, 3, 5, 7), only_when=("speculation", ("draft", "ngram"))),
            Knob("ngram_size", "int", 2, "", low=1, high=4, only_when=("speculation", ("ngram",))),
            Knob("speculation", "choice", "off", "", choices=("off", "draft", "ngram")),
            Knob("min_match", "int", 1, "", low=1, high=3, only_when=("ngram_size", (3, 4))),
            Knob("seats", "int", 8, "", low=1, high=32, log=True),
        )
    }
)
BASELINE = KNOBS.resolve({})
VALUES = st.fixed_dictionaries(
    {
        "draft_tokens": st.sampled_from((1, 3, 5, 7)),
        "ngram_size": st.integers(1, 4),
        "speculation": st.sampled_from(("off", "draft", "ngram")),
        "min_match": st.integers(1, 3),
        "seats": st.sampled_from((1, 8, 32)),
    }
)


def in_play(values: dict[str, Value]) -> frozenset[str]:
    """The same, said otherwise."""
    names = {"speculation", "seats"}
    if values["speculation"] != "off":
        names.add("draft_tokens")
    if values["speculation"] == "ngram":
        names |= {"ngram_size"} | ({"min_match"} if values["ngram_size"] in (3, 4) else set())
    return frozenset(names)


@given(VALUES)
def test_a_knob_is_in_play_where_its_condition_and_that_of_its_condition_hold(values: dict[str, Value]) -> None:
    assert KNOBS.active(values) == in_play(values)


@given(VALUES, VALUES)
def test_patches_never_differ_in_nothing_but_knobs_out_of_play(one: dict[str, Value], other: dict[str, Value]) -> None:
    space = SearchSpace(KNOBS, BASELINE)
    same = in_play(one) == in_play(other) and all(one[name] == other[name] for name in in_play(one))
    assert (key_of(space.reduce(one)) == key_of(space.reduce(other))) == same


@pytest.mark.parametrize("name", ["random", "tpe", "gp", "guided"])
def test_strategies_move_only_what_is_in_play(name: str) -> None:
    search = strategy(name, Problem(KNOBS, BASELINE, lower_is_better=True, seed=1))
    history = [Observation({}, 10.0, feasible=True)]
    for _ in range(5):
        patch = search.ask(history)
        assert patch is not None
        values = {**BASELINE.values, **patch}
        assert patch.keys() <= in_play(values)
        history.append(Observation(patch, 9.0 - len(patch), feasible=True))
    assert len({key_of(seen.patch) for seen in history}) == len(history)


def test_smac_moves_only_what_is_in_play() -> None:
    pytest.importorskip("smac")
    test_strategies_move_only_what_is_in_play("smac")


def test_a_space_with_conditions_counts_each_config_once() -> None:
    space = SearchSpace(KNOBS, BASELINE)
    seats = len({patch.get("seats", 8) for patch in space.every_patch()})
    assert len({key_of(patch) for patch in space.every_patch()}) == seats * (1 + 4 + 4 * (2 + 2 * 3))


def test_the_parent_may_stand_outside_the_searched_space() -> None:
    alone = KNOBS.only(frozenset({"draft_tokens"}))
    off = SearchSpace(alone, BASELINE)
    on = SearchSpace(alone, BASELINE.patched({"speculation": "draft"}))
    assert off.reduce({"draft_tokens": 7}) == {}
    assert on.reduce({"draft_tokens": 7}) == {"draft_tokens": 7}


def test_conditions_survive_json_and_nonsense_is_refused() -> None:
    assert KnobSpace.from_json(KNOBS.to_json()) == KNOBS
    circle = KnobSpace(
        {
            name: Knob(name, "bool", False, "", only_when=(other, (True,)))
            for name, other in itertools.permutations(("a", "b"))
        }
    )
    with pytest.raises(KnobError, match="leads back to itself"):
        circle.active({"a": True, "b": True})
    with pytest.raises(KnobError, match="leads back to itself"):
        SearchSpace(circle, Config({"a": True, "b": True})).reduce({})
    with pytest.raises(KnobError, match="'speculation'"):
        KNOBS.only(frozenset({"draft_tokens"})).active({"draft_tokens": 3})
