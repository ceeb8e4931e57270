"""The sampler draws from the distribution that was asked for, and from nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import RequestRefused, SamplingParams
from engine.sampler import Sampler

CPU = torch.device("cpu")


def draw(logits: list[float], count: int, **params: float) -> list[int]:
    """`count` tokens from one request."""
    sampler = Sampler(CPU)
    request = ("r", SamplingParams(seed=1, **params))  # type: ignore[arg-type]
    return [sampler.sample(torch.tensor([logits]), [request])[0] for _ in range(count)]


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    logits = torch.zeros(2, 49152)
    logits[0, [700, 31000, 49151]] = 5.0
    logits[1, [3, 4]] = 1.0
    greedy = SamplingParams(temperature=0)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert Sampler(CPU).sample(logits.to(dtype), [("a", greedy), ("b", greedy)]) == [700, 3]


def test_frequencies_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    tokens = draw(probabilities.log().tolist(), 4000)
    shares = torch.bincount(torch.tensor(tokens), minlength=4) / 4000
    assert torch.allclose(shares, probabilities, atol=0.03)


def test_temperature_sharpens() -> None:
    logits = torch.tensor([0.6, 0.4]).log().tolist()
    assert draw(logits, 1000, temperature=0.1).count(0) > draw(logits, 1000, temperature=2.0).count(0) + 200


def test_a_tiny_temperature_is_greedy() -> None:
    assert set(draw([1.0, 1.001, -50.0], 50, temperature=1e-40)) == {1}


def test_top_k_and_top_p_leave_the_rest_out() -> None:
    logits = torch.tensor([0.05, 0.4, 0.25, 0.3]).log().tolist()
    assert set(draw(logits, 300, top_k=2)) == {1, 3}
    assert set(draw(logits, 300, top_p=0.69)) == {1, 3}
    assert set(draw(logits, 300, top_p=0.71)) == {1, 2, 3}
    assert set(draw(logits, 300, top_k=3, top_p=0.1)) == {1}


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


def test_a_seed_makes_a_request_independent_of_its_neighbours() -> None:
    logits = torch.randn(3, 512, generator=torch.Generator().manual_seed(0))
    seeded, other = SamplingParams(seed=5), SamplingParams()
    alone, crowded = Sampler(CPU), Sampler(CPU)
    first = [alone.sample(logits[:1], [("r", seeded)])[0] for _ in range(5)]
    second = [
        crowded.sample(logits[[1, 0, 2]], [("x", other), ("r", seeded), ("y", SamplingParams(temperature=0))])[1]
        for _ in range(5)
    ]
    assert first == second


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("max_tokens", 0),
        ("seed", 2**70),
        ("stop", ("",)),
    ],
)
def test_a_sampling_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(RequestRefused, match=name) as refusal:
        SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert refusal.value.param == name
