"""Text comes in pieces that join to the whole, never within a character, never with a stop string in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers

from engine.detokenizer import Detokenizer, held_back
from engine.tokenizer import ModelTokenizer

WORDS = ["a", "b", "e", "\u2581", "\u2581a", "ab", "\u2581be", "\n", "ü", "—", "好"]


def sentencepiece(directory: Path) -> Path:
    """A tokenizer of Gemma's kind: blanks as ▁, unknown characters as bytes."""
    names = ["<pad>", "<eos>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
    merges = [("\u2581", "a"), ("a", "b")]
    model = models.BPE({name: index for index, name in enumerate(names)}, merges, byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<pad>", "<eos>"])
    directory.mkdir()
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(scope="module", params=["byte level", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "byte level":
        return ModelTokenizer(tiny_model)
    return ModelTokenizer(sentencepiece(tmp_path_factory.mktemp("model") / "gemma"))


def pieces(tokenizer: ModelTokenizer, ids: Sequence[int], stop: tuple[str, ...] = (), **options: Any) -> list[str]:
    detokenizer = Detokenizer(tokenizer, stop, **options)
    out = []
    for token in ids:
        out.append(detokenizer.add(token))
        if detokenizer.stop_string is not None:
            return out
    return [*out, detokenizer.finish()]


TEXT = st.text(st.sampled_from("ab e\n🙂你好ü—🚀"), max_size=40)
STOP = st.lists(st.text(st.sampled_from("ab e\n🙂"), min_size=1, max_size=3), min_size=1, max_size=3)


def test_text_in_any_script_comes_back_whole(tokenizer: ModelTokenizer) -> None:
    @settings(max_examples=200, deadline=None)
    @given(TEXT)
    def check(text: str) -> None:
        got = pieces(tokenizer, tokenizer.encode(text))
        assert "".join(got) == text
        assert not any("\ufffd" in piece for piece in got)

    check()


@pytest.mark.parametrize("skip", [True, False])
def test_any_tokens_at_all_give_the_text_of_their_decoding(tokenizer: ModelTokenizer, skip: bool) -> None:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, 511), max_size=40))
    def check(ids: list[int]) -> None:
        got = "".join(pieces(tokenizer, ids, skip_special_tokens=skip))
        whole = tokenizer.decode(ids, skip_special_tokens=skip)
        # Sentencepiece gives up good bytes beside bad ones, when they may be on their way to the client already.
        assert got == whole or ("\ufffd" in whole and not tokenizer.joins_bytes)

    check()


def test_a_token_s_bytes_are_its_part_of_the_text(tokenizer: ModelTokenizer) -> None:
    @settings(max_examples=200, deadline=None)
    @given(TEXT)
    def check(text: str) -> None:
        assert b"".join(tokenizer.bytes_of(token) for token in tokenizer.encode(text)) == text.encode()

    check()


@pytest.mark.parametrize("include", [True, False])
def test_an_answer_ends_at_the_stop_string_that_is_complete_first(tokenizer: ModelTokenizer, include: bool) -> None:
    @settings(max_examples=300, deadline=None)
    @given(TEXT, STOP)
    def check(text: str, stop: list[str]) -> None:
        found = [(text.index(s) + len(s), text.index(s)) for s in stop if s in text]
        got = "".join(pieces(tokenizer, tokenizer.encode(text), tuple(stop), include_stop=include))
        assert got == text[: min(found)[0 if include else 1]] if found else got == text

    check()


def test_the_first_tokens_are_not_searched(tokenizer: ModelTokenizer) -> None:
    @settings(max_examples=200, deadline=None)
    @given(TEXT, STOP, st.integers(0, 10))
    def check(text: str, stop: list[str], min_tokens: int) -> None:
        ids = tokenizer.encode(text)
        if any("\ufffd" in tokenizer.decode(ids[:count]) for count in (min_tokens, len(ids))):
            return  # a character that begins before the border and ends behind it belongs to neither
        head = tokenizer.decode(ids[:min_tokens])
        rest = text.removeprefix(head)
        found = [(rest.index(s) + len(s), rest.index(s)) for s in stop if s in rest]
        got = "".join(pieces(tokenizer, ids, tuple(stop), min_tokens=min_tokens))
        assert got == (head + rest[: min(found)[1]] if found else text)

    check()


def test_text_that_cannot_begin_a_stop_string_is_not_held_back() -> None:
    assert held_back("a sentence.", ("\n\n",)) == 0
    assert held_back("a sentence.\n", ("\n\n",)) == 1
    assert held_back("xab", ("abc", "b!")) == 2
    assert held_back("xab", ()) == 0
