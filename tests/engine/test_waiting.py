"""The queue against a plain sorted list."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.waiting import WaitingQueue

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["push", "take", "leave", "return", "time"]), st.integers(-2, 2), st.integers(0, 30)),
    max_size=200,
)


@settings(max_examples=100, deadline=None)
@given(ACTIONS)
def test_the_queue_is_a_sorted_list(actions: list[tuple[str, int, int]]) -> None:
    queue, plain, gone = WaitingQueue(), [], []
    now_s, arrivals = 0.0, 0
    for action, priority, number in actions:
        if action == "push":
            deadline_s = now_s + number if number % 3 else math.inf
            sequence = Sequence(
                str(arrivals), np.array([1]), SamplingParams(), priority=priority, deadline_s=deadline_s
            )
            sequence.arrival = arrivals
            arrivals += 1
            queue.push(sequence)
            plain.append(sequence)
        elif action == "return" and gone:
            sequence = gone.pop(number % len(gone))
            queue.push(sequence)
            plain.append(sequence)
        elif action == "time":
            now_s += number / 4
            late = [s for s in plain if s.deadline_s <= now_s]
            assert {s.arrival for s in queue.expired(now_s)} == {s.arrival for s in late}
            for sequence in late:
                queue.discard(sequence)
                plain.remove(sequence)
        elif plain:
            sequence = min(plain, key=lambda s: s.rank) if action == "take" else plain[number % len(plain)]
            if action == "take":
                assert queue.first() is sequence
                gone.append(sequence)
            queue.discard(sequence)
            plain.remove(sequence)
        assert len(queue) == len(plain)
        assert queue.first() is min(plain, key=lambda s: s.rank, default=None)
        assert {s.arrival for s in queue} == {s.arrival for s in plain}
