"""The sampler draws from the distribution that was asked for, and from nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import RequestRefused, SamplingParams
from engine.randomness import uniform
from engine.sampler import Sampler
from engine.seats import Seats
from engine.sequence import Sequence

GREEDY = SamplingParams(temperature=0)


def seated(*params: SamplingParams, prompt: int = 1) -> Seats:
    """Seats 0, 1, ... for one-token requests with `params`."""
    seats = Seats(len(params), 64, 16)
    for index, own in enumerate(params):
        seed = own.seed if own.seed is not None else 1000 + index
        seats.sit(Sequence(str(index), np.full(prompt, 3, np.int32), own, seed=seed))
    return seats


def sample(logits: torch.Tensor, *params: SamplingParams, position: int = 1) -> list[int]:
    rows = np.arange(len(params))
    found: list[int] = (
        Sampler(seated(*params), frozenset()).sample(logits, rows, np.full(len(params), position)).tolist()
    )
    return found


def draw(logits: list[float], count: int, **params: object) -> list[int]:
    """What one request says at `count` positions."""
    own = SamplingParams(seed=1, **params)  # type: ignore[arg-type]
    sampler = Sampler(seated(own), frozenset())
    rows, row = np.zeros(count, np.int64), torch.tensor(logits)
    return sampler.sample(row.repeat(count, 1), rows, np.arange(count)).tolist()  # type: ignore[no-any-return]


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    logits = torch.zeros(2, 49152)
    logits[0, [700, 31000, 49151]] = 5.0
    logits[1, [3, 4]] = 1.0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert sample(logits.to(dtype), GREEDY, GREEDY) == [700, 3]


def test_frequencies_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    for params in ({}, {"top_k": 4}, {"top_p": 0.9999}):
        tokens = draw(probabilities.log().tolist(), 4000, **params)
        shares = torch.bincount(torch.tensor(tokens), minlength=4) / 4000
        assert torch.allclose(shares, probabilities, atol=0.03)


def test_a_nucleus_larger_than_the_first_look_is_drawn_from_whole() -> None:
    tokens = draw([0.0] * 5000, 3000, top_p=0.9)
    assert len(set(tokens)) > 1800, "of 4,500 equal tokens 3,000 draws find about 2,200"
    assert len(set(tokens) - set(range(4600))) == 0 or len(set(tokens)) < 4500


def test_temperature_sharpens() -> None:
    logits = torch.tensor([0.6, 0.4]).log().tolist()
    assert draw(logits, 1000, temperature=0.1).count(0) > draw(logits, 1000, temperature=2.0).count(0) + 200


def test_a_tiny_temperature_is_greedy() -> None:
    assert set(draw([1.0, 1.001, -50.0], 50, temperature=1e-40)) == {1}


def test_top_k_top_p_and_min_p_leave_the_rest_out() -> None:
    logits = torch.tensor([0.05, 0.4, 0.25, 0.3]).log().tolist()
    assert set(draw(logits, 300, top_k=2)) == {1, 3}
    assert set(draw(logits, 300, top_p=0.69)) == {1, 3}
    assert set(draw(logits, 300, top_p=0.71)) == {1, 2, 3}
    assert set(draw(logits, 300, top_k=3, top_p=0.1)) == {1}
    assert set(draw(logits, 300, min_p=0.7)) == {1, 3}
    assert set(draw(logits, 300, min_p=0.1)) == {0, 1, 2, 3}
    assert set(draw(logits, 300, min_p=1.0)) == {1}


@settings(max_examples=60, deadline=None)
@given(
    logits=st.lists(st.floats(-80, 80), min_size=2, max_size=40),
    top_k=st.integers(-1, 50),
    top_p=st.floats(0.001, 1),
    temperature=st.floats(0.01, 2),
)
def test_only_tokens_of_the_nucleus_are_drawn(
    logits: list[float], top_k: int, top_p: float, temperature: float
) -> None:
    ordered = torch.tensor(logits).div(temperature).softmax(0).sort(descending=True, stable=True).values
    kept = ordered[:top_k] if top_k > 0 else ordered
    kept = kept / kept.sum()
    size = int(((kept.cumsum(0) - kept) < top_p + 1e-5).sum())
    least = float(ordered[size - 1])
    for token in draw(logits, 5, top_k=top_k, top_p=top_p, temperature=temperature):
        assert float(torch.tensor(logits).div(temperature).softmax(0)[token]) >= least - 1e-6


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5]), min_size=1, max_size=8), st.integers(0, 2**32))
def test_neighbours_do_not_matter(kinds: list[int], seed: int) -> None:
    of = (
        {"temperature": 0.0},
        {},
        {"top_k": 5},
        {"top_p": 0.7},
        {"min_p": 0.2, "top_k": 100},
        {"frequency_penalty": 1.5, "logit_bias": ((7, 3.0),)},
    )
    params = [SamplingParams(seed=seed + index, **of[kind]) for index, kind in enumerate(kinds)]
    logits = torch.randn(len(params), 2048, generator=torch.Generator().manual_seed(seed))
    together = sample(logits, *params, position=9)
    assert together == [sample(logits[[row]], own, position=9)[0] for row, own in enumerate(params)]


def test_random_numbers_are_uniform_and_those_of_splitmix64() -> None:
    seeds, positions = np.full(20_000, 1234567, np.uint64), np.arange(20_000)
    numbers = uniform(seeds, positions)
    # The generator's published first outputs for this seed.
    expected = np.array([6457827717110365317, 3203168211198807973, 9817491932198370423], np.uint64)
    assert numbers[:3].tolist() == ((expected >> np.uint64(11)) * 2.0**-53).tolist()
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45, "chi square of 19 degrees beyond its 99.9 % quantile"
    assert uniform(np.array([1, 2], np.uint64), np.array([5, 5])).tolist() != [numbers[0]] * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("min_p", 1.5),
        ("max_tokens", 0),
        ("min_tokens", 17),
        ("presence_penalty", 2.5),
        ("frequency_penalty", float("nan")),
        ("repetition_penalty", 0.0),
        ("logit_bias", ((3, 101.0),)),
        ("logprobs", 21),
        ("prompt_logprobs", -1),
        ("seed", 2**70),
        ("stop", ("",)),
    ],
)
def test_a_sampling_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(RequestRefused, match=name) as refusal:
        SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert refusal.value.param == name
