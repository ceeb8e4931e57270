"""Text comes in pieces that join to the whole, never within a character, never with a stop string in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engine.detokenizer import Detokenizer, held_back
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_file(str(build_tiny_model(tmp_path_factory.mktemp("model")) / "tokenizer.json"))


def pieces(tokenizer: Tokenizer, ids: Sequence[int], stop: tuple[str, ...] = ()) -> list[str]:
    detokenizer = Detokenizer(tokenizer.decode, stop)
    out = []
    for token in ids:
        out.append(detokenizer.add(token))
        if detokenizer.stopped:
            return out
    return [*out, detokenizer.finish()]


TEXT = st.text(st.sampled_from("ab e\n🙂你好ü—🚀"), max_size=40)


def test_text_in_any_script_comes_back_whole(tokenizer: Tokenizer) -> None:
    @settings(max_examples=200, deadline=None)
    @given(TEXT)
    def check(text: str) -> None:
        got = pieces(tokenizer, tokenizer.encode(text).ids)
        assert "".join(got) == text
        assert not any("\ufffd" in piece for piece in got)

    check()


def test_any_tokens_at_all_give_the_text_of_their_decoding(tokenizer: Tokenizer) -> None:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, 511), max_size=40))
    def check(ids: list[int]) -> None:
        assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)

    check()


def test_an_answer_ends_before_the_stop_string_that_is_complete_first(tokenizer: Tokenizer) -> None:
    @settings(max_examples=300, deadline=None)
    @given(TEXT, st.lists(st.text(st.sampled_from("ab e\n🙂"), min_size=1, max_size=3), min_size=1, max_size=3))
    def check(text: str, stop: list[str]) -> None:
        found = [(text.index(s) + len(s), text.index(s)) for s in stop if s in text]
        got = "".join(pieces(tokenizer, tokenizer.encode(text).ids, tuple(stop)))
        assert got == text[: min(found)[1]] if found else got == text

    check()


def test_text_that_cannot_begin_a_stop_string_is_not_held_back() -> None:
    assert held_back("a sentence.", ("\n\n",)) == 0
    assert held_back("a sentence.\n", ("\n\n",)) == 1
    assert held_back("xab", ("abc", "b!")) == 2
    assert held_back("xab", ()) == 0
