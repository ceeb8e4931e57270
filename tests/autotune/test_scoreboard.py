"""The scoreboard's rules of play: what a trial costs, what is shipped, and that luck is the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from benchmarks.agents_figures import headroom_share
from benchmarks.agents_kept import kept
from benchmarks.agents_play import Exploration, best_seen, by_count, by_seconds, ship
from benchmarks.agents_transcripts import Retold
from benchmarks.surfaces.table import Trial, table_names
from tools.search import Observation
from tools.targets.knobs import Knob, KnobSpace, Value

SEATS = KnobSpace({"seats": Knob("seats", "int", 1, "Sequences together.", low=1, high=9)})


@dataclass(frozen=True)
class Seats:
    """A stand on which so many seats give such a score; it takes ten seconds a trial, and three to fail."""

    scores: Mapping[int, float]
    noise: float = 0.0
    quality: Mapping[int, float] | None = None
    name: str = "seats"
    knobs: KnobSpace = SEATS

    @property
    def default(self) -> Mapping[str, Value]:
        return {"seats": 1}

    def trial(self, values: Mapping[str, Value], rng: Random) -> Trial:
        seats = int(values["seats"])
        if seats not in self.scores:
            return Trial(None, {}, 3.0, ("oom", "no room"), 1.0)
        quality = (self.quality or {}).get(seats, 1.0)
        return Trial(self.scores[seats] * (1 + self.noise * rng.gauss(0, 1)), {}, 10.0, None, quality)


def asking(*seats: int) -> Retold:
    return Retold([{"seats": each} for each in seats])


def test_a_trial_that_is_not_done_in_time_yields_nothing() -> None:
    explored = Exploration(Seats({1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}), asking(2, 3, 4), seed=0)
    assert ship(explored, by_seconds(29.0), best_seen).patch == {"seats": 3}
    assert ship(explored, by_seconds(30.0), best_seen).patch == {"seats": 4}
    assert ship(explored, by_seconds(9.0), best_seen).patch == {}
    assert ship(explored, by_count(1), best_seen).patch == {"seats": 2}


def test_a_failure_costs_what_it_took_and_is_not_shipped() -> None:
    explored = Exploration(Seats({1: 1.0, 2: 2.0}), asking(9, 8, 2), seed=0)
    shipped = ship(explored, by_seconds(16.0), best_seen)
    assert (shipped.patch, shipped.trials) == ({"seats": 2}, 3)
    assert [seen.kind for seen in explored.known(3)] == ["", "oom", "oom", ""]


def test_a_config_of_poor_quality_is_infeasible_to_all() -> None:
    explored = Exploration(Seats({1: 1.0, 2: 2.0, 3: 9.0}, quality={3: 0.94}), asking(2, 3), seed=0)
    assert ship(explored, by_count(2), best_seen).patch == {"seats": 2}
    assert explored.known(2)[2] == Observation({"seats": 3}, None, False, seconds=10.0, kind="quality")


def test_the_default_is_kept_where_nothing_is_better() -> None:
    explored = Exploration(Seats({1: 5.0, 2: 2.0, 3: 3.0}), asking(2, 3), seed=0)
    assert ship(explored, by_count(2), best_seen).patch == {}


@pytest.mark.parametrize("seed", range(5))
def test_luck_depends_on_the_seed_and_the_config_alone(seed: int) -> None:
    stand = Seats({1: 1.0, 2: 2.0, 3: 2.0}, noise=0.1)
    here, there = (Exploration(stand, asking(*order), seed) for order in ((2, 3), (3, 2)))
    first, last = here.step(0), there.step(1)
    assert first is not None and last is not None and first.score == last.score


def test_a_config_that_is_measured_again_has_another_luck_and_costs_another_trial() -> None:
    explored = Exploration(Seats({1: 1.0, 2: 2.0}, noise=0.1), asking(2, 2, 2), seed=0)
    scores = [step.score for step in explored.steps()]
    assert len(set(scores)) == 3
    assert ship(explored, by_seconds(20.0), best_seen).trials == 2


def test_the_default_that_is_measured_again_has_another_luck_too() -> None:
    explored = Exploration(Seats({1: 1.0}, noise=0.1), asking(1, 1), seed=0)
    assert len({explored.default.score, *(step.score for step in explored.steps())}) == 3


def test_who_ships_by_a_choice_of_its_own_sees_what_the_budget_paid_for() -> None:
    explored = Exploration(Seats({1: 1.0, 2: 2.0, 3: 3.0}), asking(2, 3), seed=0)
    assert ship(explored, by_count(1), lambda seen: seen[-1].patch).patch == {"seats": 2}
    assert not explored.known(0)[0].from_search


def test_a_kept_play_is_said_again_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTS_OUT", str(tmp_path))
    table, stand = table_names()[0], Seats({1: 1.0, 2: 2.0, 3: 3.0})

    def patches(*asked: int, seed: int = 0) -> list[Mapping[str, Value]]:
        explored = Exploration(stand, kept(asking(*asked), "random", table, seed), seed)
        return [step.patch for step in explored.steps()]

    assert patches(2) == [{"seats": 2}]
    assert patches(3, 4) == [{"seats": 2}]  # an exhausted space is kept too
    assert patches(3, seed=1) == [{"seats": 3}]
    monkeypatch.delenv("AGENTS_OUT")
    assert patches(3) == [{"seats": 3}]


def test_headroom_is_counted_from_the_default() -> None:
    assert headroom_share([1.5, 1.5], 2.0) == pytest.approx(0.5)
    assert headroom_share([1.0], 1.0) == 1.0
