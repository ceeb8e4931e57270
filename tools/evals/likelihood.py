"""Likelihood: how likely servers find text that they didn't choose, and how far two of them differ over it."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, fsum, isfinite, log

from tools.evals.results import Passage

__all__ = ["cut_alike", "divergence_nats", "least_told", "perplexity", "scoring_fault"]

LEAST = 1e-9
"Probability below which none is told apart: what rounding leaves of a sum."
ROUNDING = 1e-3
"By which a logarithm of a probability near 1 may lie above 0, in half precision."


def cut_alike(a: Mapping[str, Passage], b: Mapping[str, Passage]) -> bool:
    """Whether two servers scored the same texts in one way and cut them into the same tokens."""
    return a.keys() == b.keys() and all(
        (a[name].tokens, a[name].by_prefix) == (b[name].tokens, b[name].by_prefix) for name in a
    )


def scoring_fault(passage: Passage) -> str:
    """Why its numbers are no log-probabilities of its tokens; empty where they are."""
    if not len(passage.tokens) == len(passage.logprobs) == len(passage.top):
        return f"expected a log-probability and alternatives for each of {len(passage.tokens)} tokens"
    said = (logprob for place in passage.top for logprob in place.values())
    odd = next((value for value in (*passage.logprobs, *said) if not (isfinite(value) and value <= ROUNDING)), None)
    return "" if odd is None else f"expected a logarithm of a probability, found {odd}"


def least_told(passages: Mapping[str, Passage]) -> int:
    """The fewest alternatives told at any place. Where a server tells fewer, a divergence sees less."""
    return min((len(place) for passage in passages.values() for place in passage.top), default=0)


def divergence_nats(a: Mapping[str, Passage], b: Mapping[str, Passage]) -> float:
    """Mean Kullback-Leibler divergence KL(a || b) over all places, in nats a token.

    At each place over the tokens that both told and one bucket for all others. Lumping outcomes together can only
    lower a divergence (Cover and Thomas, Elements of Information Theory, section 2.8), so this is a lower bound.

    Raises:
        ValueError: other texts or other tokens, or nothing.
    """
    if not a or not cut_alike(a, b):
        raise ValueError("divergence needs the same texts, cut into the same tokens")
    places = [
        _divergence(_known(a[name], index), _known(b[name], index))
        for name in a
        for index in range(len(a[name].tokens))
    ]
    return fsum(places) / len(places)


def perplexity(passages: Mapping[str, Passage]) -> float:
    """exp of the mean negative log-probability of a token: 1 where all was foreseen.

    Raises:
        ValueError: no passages.
    """
    logprobs = [logprob for passage in passages.values() for logprob in passage.logprobs]
    if not logprobs:
        raise ValueError("perplexity needs a passage")
    return exp(-fsum(logprobs) / len(logprobs))


def _known(passage: Passage, index: int) -> Mapping[str, float]:
    if passage.by_prefix:
        return passage.top[index]
    return {**passage.top[index], passage.tokens[index]: passage.logprobs[index]}


def _divergence(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    shared = a.keys() & b.keys()
    p, q = [exp(a[token]) for token in sorted(shared)], [exp(b[token]) for token in sorted(shared)]
    pairs = [*zip(p, q, strict=True), (1 - fsum(p), 1 - fsum(q))]
    return fsum(max(x, LEAST) * log(max(x, LEAST) / max(y, LEAST)) for x, y in pairs)
