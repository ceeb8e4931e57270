"""The simulated fleet: conservation, Little's law, the queues that have formulas, and the single-replica simulator."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.capacity.balancer import BALANCERS, BalancerName, LeastOutstanding
from tools.capacity.book import Book
from tools.capacity.fleet import Fleet, FleetModel
from tools.capacity.mix import Mix
from tools.capacity.simulate import Demand, simulate
from tools.capacity.station import Pace, Station
from tools.capacity.steady import Steady, floors_ms
from tools.measure import Slo
from tools.service.curve import ServiceCurve
from tools.service.jobs import Job
from tools.service.replica import Replica
from tools.service.simulate import simulate as play

MANY = 1_000_000


def a_curve(seats: int = 16, steps: tuple[tuple[float, float], ...] = ((1, 0.01), (16, 0.03))) -> ServiceCurve:
    return ServiceCurve("gpu", "", seats, 0.004, 2e-5, steps, 300, 60)


def a_mix(mean_output: float = 60, rows: int = 4096, seed: int = 1) -> Mix:
    """Exponential answers: what the formulas of queueing theory are for."""
    random = np.random.default_rng(seed)
    outputs = np.maximum(np.rint(random.permutation(-np.log1p(-(np.arange(rows) + 0.5) / rows)) * mean_output), 1)
    return Mix(np.ones(rows, np.int64), outputs.astype(np.int64), "made for the test")


def server(seats: int, step_s: float = 0.001, *, shared: bool = False) -> FleetModel:
    """A replica that is a textbook queue: reading costs nothing and steps are tiny; `shared`, k sequences take k times
    as long."""
    steps = tuple((float(k), step_s * k) for k in (1, seats)) if shared else ((1.0, step_s),)
    return FleetModel(Replica(ServiceCurve("queue", "", seats, 0.0, 0.0, steps, 1, 1), MANY))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    chunk_tokens=st.sampled_from([16, 100, 512, MANY]),
    latency_share=st.sampled_from([0.0, 0.4, 1.0]),
    seats=st.sampled_from([1, 2, 7, 64]),
    load=st.floats(0.05, 2.0),
)
def test_one_station_does_what_the_single_replica_simulator_does(
    seed: int, chunk_tokens: int, latency_share: float, seats: int, load: float
) -> None:
    replica = Replica(a_curve(seats), chunk_tokens, latency_share)
    random = Random(seed)
    prompts = [random.randrange(1, 900) for _ in range(120)]
    outputs = [random.randrange(1, 80) for _ in range(120)]
    due_s = sorted(random.random() * 120 / (load * 10) for _ in range(120))
    played = play(replica, [Job(*job) for job in zip(due_s, prompts, outputs, strict=True)])

    book = Book(due_s, prompts, outputs, seats)
    station = Station(0, book, Pace(replica), 0.0)
    for request, now in enumerate(due_s):
        station.advance(now)
        station.enter(request)
    station.advance(math.inf)

    # Times are sums of the same steps in another order: equal but for the last digits.
    np.testing.assert_allclose(np.array(book.first) + replica.latency_s, played.first_token_s, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.array(book.done) + replica.latency_s, played.last_token_s, rtol=0, atol=1e-9)
    assert sum(book.decode) + sum(tokens for _, tokens in book.mixed) == sum(outputs) - len(outputs)
    assert station.outstanding == 0


@pytest.mark.parametrize("name", BALANCERS)
@given(seed=st.integers(0, 10_000), replicas=st.integers(1, 9))
@settings(max_examples=10)
def test_at_any_moment_what_has_come_is_done_or_in_flight(name: BalancerName, seed: int, replicas: int) -> None:
    random = Random(seed)
    arrived = sorted(random.random() * 20 for _ in range(200))
    book = Book(arrived, [random.randrange(1, 500) for _ in arrived], [random.randrange(1, 90) for _ in arrived], 16)
    fleet = Fleet(FleetModel(Replica(a_curve(), 512), name), book, seed)
    for _ in range(replicas):
        fleet.add(0.0)
    for request, now in enumerate(arrived):
        fleet.arrive(request, now)
        if request % 17 == 3 and len(fleet.stations) > 1 and random.random() < 0.3:
            fleet.fail(random.choice(sorted(fleet.stations)), now)
        if request % 17 == 9 and fleet.ready > 1:
            fleet.drain(random.choice([i for i, s in fleet.stations.items() if not s.draining]))
        if request % 17 == 12:
            fleet.add(now)
        in_flight = fleet.outstanding(now)
        done = sum(moment <= now for moment in book.done)  # nan compares as not done
        assert request + 1 == done + in_flight
    fleet.finish()
    assert all(math.isfinite(moment) for moment in book.done)
    assert all(a <= f <= d for a, f, d in zip(book.arrived, book.first, book.done, strict=True))


@pytest.mark.parametrize("name", BALANCERS)
def test_littles_law_counts_what_a_watcher_counts(name: BalancerName) -> None:
    rate = 3 * 0.8 * Steady(a_curve(), a_mix()).most_rps()
    arrived = np.cumsum(np.random.default_rng(5).exponential(1 / rate, 4000)).tolist()
    prompts, outputs = a_mix().draw(4000, np.random.default_rng(6))
    book = Book(arrived, prompts.tolist(), outputs.tolist(), 16)
    fleet = Fleet(FleetModel(Replica(a_curve(), 512), name), book, 7)
    for _ in range(3):
        fleet.add(0.0)
    watched = []
    for request, now in enumerate(arrived):
        if request > 400:
            watched.append(fleet.outstanding(now))  # arrivals of a Poisson process see time averages
        fleet.arrive(request, now)
    fleet.finish()
    span_s = arrived[-1] - arrived[400]
    by_law = sum(d - a for a, d in zip(book.arrived[400:], book.done[400:], strict=True)) / span_s
    assert np.mean(watched) == pytest.approx(by_law, rel=0.05)


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("servers", [1, 4])
def test_the_queue_that_erlang_solved(servers: int, load: float) -> None:
    """M/M/k: mean wait C(k, a) / (k mu - lambda), Erlang's C; k seats whose steps don't slow each other down."""
    mean_s = 1.0
    rate = load * servers / mean_s
    offered = rate * mean_s
    top = offered**servers / math.factorial(servers) / (1 - load)
    waits = top / (sum(offered**n / math.factorial(n) for n in range(servers)) + top)
    expected_s = waits / (servers / mean_s - rate)
    runs = [
        simulate(server(servers), 1, Demand(a_mix(1000), rate), requests=30_000, seed=seed).ttft_s.mean()
        for seed in range(4)
    ]
    # Four runs tell their own error; a step of a millisecond adds up to half of itself.
    error = np.std(runs, ddof=1) / 2
    assert np.mean(runs) == pytest.approx(expected_s, abs=max(4 * error, 0.03 * expected_s))


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_processor_sharing_depends_on_the_mean_alone(spread: float) -> None:
    """M/G/1 processor sharing: mean time E[S] / (1 - load), whatever the distribution."""
    outputs = a_mix(1000) if spread else Mix(np.ones(1, np.int64), np.full(1, 1000, np.int64), "fixed")
    found = [
        simulate(server(200, shared=True), 1, Demand(outputs, 0.7), requests=30_000, seed=seed).e2el_s.mean()
        for seed in range(3)
    ]
    assert np.mean(found) == pytest.approx(1 / (1 - 0.7), rel=0.1)


@pytest.mark.parametrize("name", BALANCERS)
def test_more_replicas_are_never_worse_on_the_same_traffic(name: BalancerName) -> None:
    model = FleetModel(Replica(a_curve(), 512), name)
    mix = a_mix()
    demand = Demand(mix, 4.3 * Steady(model.curve, mix).most_rps(), 1.4)
    found = [simulate(model, count, demand, requests=8000, seed=3) for count in (5, 6, 8, 12, 24)]
    for metric in ("p95_ttft_ms", "p95_e2el_ms", "mean_tpot_ms", "p95_itl_ms"):
        values = [run.value_ms(metric) for run in found]
        assert all(later <= earlier * 1.02 for earlier, later in pairwise(values)), metric


def test_equals_take_turns() -> None:
    """Of those with equally many requests the next goes to the one that has had so many for longest."""
    book = Book([0.01 * at for at in range(6)], [10] * 6, [500] * 6, 8)
    fleet = LeastOutstanding()
    pace = Pace(Replica(a_curve(), 2048))
    for index in range(3):
        fleet.join(Station(index, book, pace, 0.0))
    chosen = []
    for request in range(6):
        now = 0.01 * request
        station = fleet.choose(now)
        chosen.append(station.index)
        station.enter(request)
        fleet.entered(station, request, now)
    assert chosen == [0, 1, 2, 0, 1, 2]


def test_balancers_that_look_beat_the_one_that_doesnt_when_seats_are_few() -> None:
    mix = a_mix()
    waits = {}
    for name in BALANCERS:
        model = FleetModel(Replica(a_curve(2, ((1, 0.01), (2, 0.012))), 512), name)
        demand = Demand(mix, 20 * 0.85 * Steady(model.curve, mix).most_rps())
        waits[name] = simulate(model, 20, demand, requests=20_000, seed=1).value_ms("p95_ttft_ms")
    assert waits["least-outstanding"] < waits["power-of-two"] < waits["round-robin"]


def test_the_ceiling_is_where_the_queue_stops_ending() -> None:
    model = FleetModel(Replica(a_curve(), MANY))
    mix = Mix(np.full(64, 200, np.int64), np.full(64, 60, np.int64), "fixed")
    most = Steady(model.curve, mix).most_rps()
    below, above = (
        simulate(model, 1, Demand(mix, share * most), requests=20_000, seed=2).ttft_s for share in (0.93, 1.07)
    )
    tenth = len(below) // 10
    assert below[-tenth:].mean() < 3 * below[:tenth].mean() + 0.5
    assert above[-tenth:].mean() > 3 * above[:tenth].mean() > 3


def test_nobody_alone_is_faster_than_the_floor() -> None:
    slo = Slo(ttft_ms={"p95": 1, "mean": 1}, e2el_ms={"p50": 1}, tpot_ms={"p99": 1}, itl_ms={"p95": 1})
    model = FleetModel(Replica(a_curve(), MANY))
    mix = Mix.of_curve(model.curve)
    floors = floors_ms(model.replica, mix, slo)
    alone = simulate(model, 400, Demand(mix, 1.0), requests=6000, seed=1)
    for name, floor in floors.items():
        assert alone.value_ms(name) == pytest.approx(floor, rel=0.03), name


def test_the_guessed_lengths_have_the_curves_means() -> None:
    mix = Mix.of_curve(a_curve())
    assert mix.mean_prompt == pytest.approx(300, rel=0.02)
    assert mix.mean_output == pytest.approx(60, rel=0.02)
    assert abs(np.corrcoef(mix.prompts, mix.outputs)[0, 1]) < 0.05
