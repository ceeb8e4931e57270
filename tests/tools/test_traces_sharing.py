"""The sharing tree, hit rates and conversations against slow and obvious reckonings of the same."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.traces.conversations import conversations_of
from tools.traces.logged import LoggedRequest
from tools.traces.sharing import infinite_hit_rate, lru_curve, prefix_tree

BLOCK = 16

prompts = st.lists(st.lists(st.integers(0, 2), min_size=0, max_size=6), min_size=1, max_size=25)
"""Contents of blocks, prompt by prompt: three contents make many common beginnings."""


def logged(contents: list[list[int]], *, rest: int = 5, sessions: list[str] | None = None) -> list[LoggedRequest]:
    numbers: dict[tuple[int, ...], int] = {}
    return [
        LoggedRequest(
            float(at),
            len(prompt) * BLOCK + rest,
            1,
            tuple(numbers.setdefault(tuple(prompt[: end + 1]), len(numbers)) for end in range(len(prompt))),
            session=sessions[at] if sessions else None,
        )
        for at, prompt in enumerate(contents)
    ]


@given(prompts)
def test_unlimited_cache_hits_what_was_there_before(contents: list[list[int]]) -> None:
    seen: set[tuple[int, ...]] = set()
    hits = 0
    for prompt in contents:
        for end in range(len(prompt)):
            hits += (tuple(prompt[: end + 1]) in seen) * BLOCK
            seen.add(tuple(prompt[: end + 1]))
    total = sum(len(prompt) * BLOCK + 5 for prompt in contents)
    assert infinite_hit_rate(logged(contents)) == pytest.approx(hits / total)


@given(prompts)
def test_lru_curve_is_that_of_a_real_lru_cache(contents: list[list[int]]) -> None:
    requests = logged(contents)
    total = sum(request.prompt_tokens for request in requests)
    for size_tokens, rate in lru_curve(requests, points=5):
        cache: OrderedDict[int, None] = OrderedDict()
        hits = 0
        for request in requests:
            for block in reversed(request.blocks or ()):
                hits += block in cache
                cache[block] = None
                cache.move_to_end(block)
                if len(cache) > size_tokens // BLOCK:
                    cache.popitem(last=False)
        assert rate == pytest.approx(hits * BLOCK / total)


@given(prompts)
def test_tree_holds_every_path_once(contents: list[list[int]]) -> None:
    paths = [request.blocks or () for request in logged(contents)]
    nodes, ends = prefix_tree(paths, BLOCK)
    for path, end in zip(paths, ends, strict=True):
        tokens = 0
        while end >= 0:
            assert nodes[end].parent < end
            tokens += nodes[end].tokens
            end = nodes[end].parent
        assert tokens == len(path) * BLOCK
    assert sum(node.tokens for node in nodes) == len({block for path in paths for block in path}) * BLOCK
    beginnings = [{tuple(path[:end]) for end in range(1, len(path) + 1)} for path in paths]
    for path in paths:
        if path:
            node = nodes[ends[paths.index(path)]]
            assert node.conversations == sum(tuple(path) in known for known in beginnings)


@given(prompts, st.integers(0, 20))
def test_conversations_lose_no_request_and_no_sharing(contents: list[list[int]], rest: int) -> None:
    requests = [request for request in logged(contents, rest=rest) if request.prompt_tokens]
    found = conversations_of(requests)
    assert sorted(r.at_s for c in found for r in c.requests) == [request.at_s for request in requests]
    for conversation in found:
        new = [turn[0] for turn in conversation.turns()]
        assert min(new, default=1) > 0
        for before, after in zip(conversation.requests, conversation.requests[1:], strict=False):
            assert (after.blocks or ())[: len(before.blocks or ())] == before.blocks
        # What two conversations have in common stands in what each shares, but for the token that must be its own.
        for other in found:
            if other is not conversation:
                ours, theirs = conversation.requests[-1].blocks or (), other.requests[-1].blocks or ()
                common = sum(a == b for a, b in zip(ours, theirs, strict=False))
                assert common <= conversation.shared + 1


def test_turns_are_linked_by_what_they_repeat() -> None:
    first, second, third = [1, 2], [1, 2, 0, 0], [1, 2, 0, 0, 1, 1]
    apart = [2, 2, 2]
    found = conversations_of(logged([first, apart, second, third]))
    assert [[request.at_s for request in conversation.requests] for conversation in found] == [[0, 2, 3], [1]]
    assert found[0].turns() == ((37, 1, 0.0), (31, 1, 2.0), (31, 1, 1.0))


def test_a_fork_becomes_a_shared_prefix() -> None:
    found = conversations_of(logged([[1, 1], [1, 1, 0], [1, 1, 2]]))
    assert [len(conversation.requests) for conversation in found] == [1, 1, 1]
    assert [conversation.shared for conversation in found] == [2, 2, 2]


def test_a_turn_cannot_hold_an_answer_that_was_not_there_yet() -> None:
    early = LoggedRequest(0.0, 40, 10, (0, 1), duration_s=5.0)
    late = LoggedRequest(3.0, 80, 10, (0, 1, 2, 3, 4))
    assert len(conversations_of([early, late])) == 2
    assert len(conversations_of([early, LoggedRequest(5.0, 80, 10, (0, 1, 2, 3, 4))])) == 1


def test_sessions_link_where_the_log_has_no_blocks() -> None:
    def request(at: float, prompt: int, session: str | None) -> LoggedRequest:
        return LoggedRequest(at, prompt, 10, session=session)

    linked = conversations_of([request(0, 20, "a"), request(1, 20, "b"), request(2, 40, "a"), request(3, 41, "b")])
    assert [len(conversation.requests) for conversation in linked] == [2, 2]
    shorter = conversations_of([request(0, 20, "a"), request(2, 25, "a")])  # its history isn't in the prompt
    assert len(shorter) == 2
    assert len(conversations_of([request(0, 20, None), request(2, 40, None)])) == 2


def test_sessions_keep_equal_prompts_apart() -> None:
    found = conversations_of(logged([[1], [1, 2, 2], [1, 0, 0]], sessions=["a", "b", "a"]))
    assert [len(conversation.requests) for conversation in found] == [1, 1, 1]  # block 1 is shared by all: a prefix
