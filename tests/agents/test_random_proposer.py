"""The floor that proposers are compared with: uniform draws, and search alone."""

from __future__ import annotations

from agents.actions import ACTION_KINDS, Finish, Propose, Search, check_action
from agents.random_proposer import RandomProposer
from agents.search_proposer import SearchProposer
from tests.agents.views import make_view, trial


def test_the_answer_depends_on_seed_and_view_alone() -> None:
    view = make_view()
    first = RandomProposer(1).turn(view).action
    assert first == RandomProposer(1).turn(view).action
    assert first != RandomProposer(2).turn(view).action
    assert isinstance(first, Propose)
    assert first != RandomProposer(1).turn(make_view(None, trial("t1", first.patch, 400.0))).action


def test_every_draw_is_an_action_that_the_harness_takes() -> None:
    view = make_view()
    actions = [RandomProposer(seed).turn(view).action for seed in range(200)]
    for action in actions:
        check_action(action, view, ACTION_KINDS)
    seats = sorted(a.patch["max_num_seqs"] for a in actions if isinstance(a, Propose) and "max_num_seqs" in a.patch)
    assert float(seats[0]) < 4 and float(seats[-1]) > 128
    assert 10 < float(seats[len(seats) // 2]) < 60  # uniform over the logarithm: the middle is near 23, not 256


def test_both_end_when_nothing_is_left_to_spend() -> None:
    spent = make_view(trials_left=0)
    assert isinstance(RandomProposer(1).turn(spent).action, Finish)
    assert isinstance(SearchProposer().turn(spent).action, Finish)


def test_search_alone_asks_for_as_much_as_is_left() -> None:
    assert SearchProposer().turn(make_view(trials_left=20)).action == Search(
        trials=8, why="no knowledge, numbers alone"
    )
    action = SearchProposer().turn(make_view(trials_left=3)).action
    assert isinstance(action, Search) and action.trials == 3
