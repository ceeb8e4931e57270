"""The event-stream decoder: however the bytes are cut, the events are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.sse import SseDecoder, SseError

lines = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
events = st.lists(st.lists(lines, min_size=1, max_size=3), max_size=5)


def decode(stream: bytes, cuts: list[int]) -> list[bytes]:
    decoder = SseDecoder()
    found: list[bytes] = []
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(places):
        found += decoder.feed(stream[start:end])
    return found


@given(events, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 500), max_size=30), st.booleans())
def test_any_split_gives_the_same_events(sent: list[list[str]], end: str, cuts: list[int], comments: bool) -> None:
    stream = "".join(
        (f": ping{end}event: message{end}id: 1{end}" if comments else "")
        + "".join(f"data: {line}{end}" for line in event)
        + end
        for event in sent
    ).encode()
    assert decode(stream, cuts) == ["\n".join(event).encode() for event in sent]
    assert decode(stream, list(range(len(stream)))) == decode(stream, [])


def test_one_leading_space_is_dropped_and_a_missing_one_is_fine() -> None:
    assert decode(b"data:a\n\ndata:  b\n\ndata\n\n", []) == [b"a", b" b", b""]


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\n") == [b"a"]


def test_an_unfinished_event_is_none() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []


def test_a_character_cut_in_two_reads_is_whole() -> None:
    assert decode("data: €\n\n".encode(), [7]) == ["€".encode()]


def test_an_endless_event_is_refused() -> None:
    decoder = SseDecoder()
    with pytest.raises(SseError, match="below"):
        for _ in range(10):
            decoder.feed(b"x" * 2**20)
    decoder = SseDecoder()
    with pytest.raises(SseError, match="below"):
        for _ in range(10):
            decoder.feed(b"data: " + b"x" * 2**20 + b"\n")
