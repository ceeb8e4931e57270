"""Draw: the skeleton of a workload from its spec and a seed. Lengths, turns, pauses and moments, no words yet."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from tools.measure.arrivals import Replay, schedule
from tools.measure.copula import stratified, stratified_pairs
from tools.measure.shapes import ConversationShape, Shapes
from tools.measure.skeleton import Conversation, Prefix, Skeleton, Turn

if TYPE_CHECKING:
    from tools.measure.workload import WorkloadSpec

__all__ = ["draw"]

Turns = tuple[Turn, ...]


def draw(spec: WorkloadSpec, requests: int, seed: int, *, part: str, scheduled: bool) -> Skeleton:
    """`requests` requests in conversations. `part` names what they are for: each part has draws of its own.

    Lengths are drawn apart from arrivals, so two specs that differ in their rate alone draw the same lengths from the
    same seed. All marginals are stratified (see `copula`).
    """
    random = Random(f"{part}/lengths/{seed}")
    tree, drawn = (
        _from_shapes(spec, spec.shapes, requests, random) if spec.shapes else _from_lengths(spec, requests, random)
    )
    starts = schedule(spec.arrivals, len(drawn), seed) if scheduled else (0.0,) * len(drawn)
    return Skeleton(
        tree,
        tuple(
            Conversation(turns, prefix, starts[index] if starts is not None else None)
            for index, (prefix, turns) in enumerate(drawn)
        ),
    )


def _from_lengths(
    spec: WorkloadSpec, requests: int, random: Random
) -> tuple[tuple[Prefix, ...], list[tuple[int, Turns]]]:
    tree = (Prefix(spec.system_prompt_tokens),) if spec.system_prompt_tokens else ()
    prompt_tokens, output_tokens = spec.prompt_tokens, spec.output_tokens
    assert prompt_tokens is not None and output_tokens is not None
    counts = _turn_counts(spec, requests, random)
    prompts, outputs = stratified_pairs(random, requests, spec.length_correlation)
    gaps = iter(stratified(random, requests - len(counts)))
    lengths = zip(prompts, outputs, strict=True)

    def turn(index: int) -> Turn:
        prompt, output = next(lengths)
        gap_s = spec.turn_gap_s.quantile(next(gaps)) if index else 0.0
        return Turn(prompt_tokens.quantile(prompt), output_tokens.quantile(output), gap_s)

    return tree, [(len(tree) - 1, tuple(turn(index) for index in range(count))) for count in counts]


def _turn_counts(spec: WorkloadSpec, requests: int, random: Random) -> list[int]:
    """Turns of each conversation; they add up to `requests`, the last conversation being cut short where it must."""
    if spec.turns.min == spec.turns.max == 1:
        return [1] * requests
    counts = []
    while requests > 0:
        count = min(spec.turns.quantile(max(random.random(), 2.0**-40)), requests)
        counts.append(count)
        requests -= count
    return counts


def _from_shapes(
    spec: WorkloadSpec, shapes: Shapes, requests: int, random: Random
) -> tuple[tuple[Prefix, ...], list[tuple[int, Turns]]]:
    # A replay with a moment for each conversation is the log itself: each once, in its order.
    replayed = isinstance(spec.arrivals, Replay) and len(spec.arrivals.times_s) == len(shapes.conversations)
    drawn: list[tuple[int, Turns]] = []
    for shape in shapes.conversations if replayed else _sampled(shapes, requests, random):
        turns = shape.drawn()[:requests]
        drawn.append((shape.prefix, turns))
        requests -= len(turns)
        if not requests:
            break
    return shapes.tree(), drawn


def _sampled(shapes: Shapes, requests: int, random: Random) -> Iterator[ConversationShape]:
    """Shapes for at least so many requests: each equally often, and where only some are taken, a systematic sample of
    them in order of size, so that few stand for all. In random order."""
    by_size = sorted(shapes.conversations, key=_size)
    whole, rest = divmod(max(round(requests / shapes.mean_turns), 1), len(by_size))
    chosen = by_size * whole + [by_size[int(u * len(by_size))] for u in sorted(stratified(random, rest))]
    random.shuffle(chosen)
    yield from chosen
    while True:  # rounding and long conversations can leave a few requests over
        yield random.choice(by_size)


def _size(shape: ConversationShape) -> tuple[int, int, int]:
    return sum(new for new, _, _ in shape.turns), sum(output for _, output, _ in shape.turns), shape.prefix
