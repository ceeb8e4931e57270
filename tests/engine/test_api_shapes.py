"""The chunk that is put together from constants is the one that JSON would have been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from engine.delta import Delta
from engine.detokenizer import Detokenizer
from engine.errors import RequestRefused
from engine.logprobs import TokenLogprobs
from engine.sampling import SamplingParams
from engine.server.choices import Choice, Prompt
from engine.server.link import Answer
from engine.server.pieces import Piece, Wording, usage
from engine.server.replies import ChatCompletionChunk, Completion
from engine.server.shapes import ChatShape, CompletionShape, Shape
from engine.tokenizer import ModelTokenizer

KINDS = {CompletionShape: Completion, ChatShape: ChatCompletionChunk}


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> ModelTokenizer:
    return ModelTokenizer(tiny_model)


def shape_of(kind: type[Shape], tokenizer: ModelTokenizer, **options: Any) -> Shape:
    return kind(Wording('cmpl-"1', 'm"odel', 1, **options), tokenizer)


def events(data: bytes) -> list[Any]:
    parts = data.split(b"\n\n")
    assert parts.pop() == b""
    return [json.loads(part.removeprefix(b"data: ")) for part in parts]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("with_usage", [True, False])
def test_a_plain_chunk_is_the_same_both_ways(tokenizer: ModelTokenizer, kind: type[Shape], with_usage: bool) -> None:
    shape = shape_of(kind, tokenizer, with_usage=with_usage)

    @settings(max_examples=100, deadline=None)
    @given(st.text(), st.integers(0, 300))
    def check(text: str, index: int) -> None:
        piece = Piece(text, (1,))
        assert piece.is_plain
        (quick,) = events(shape.chunk(index, piece))
        (slow,) = events(shape._chunk(index, piece, None))
        assert quick == slow
        TypeAdapter(KINDS[kind]).validate_python(quick)

    check()


@pytest.mark.parametrize("kind", list(KINDS))
def test_everything_a_piece_has_is_told(tokenizer: ModelTokenizer, kind: type[Shape]) -> None:
    shape = shape_of(kind, tokenizer, with_ids=True, with_usage=True)
    known = TokenLogprobs(65, float("-inf"), 3, ((66, -0.5), (67, -1.0)))
    piece = Piece("x", (65,), "stop", "y", (known,), (None, known), [64, 65])
    told = events(shape.chunk(2, piece, usage(2, 1, 0)))
    for each in told:
        TypeAdapter(KINDS[kind]).validate_python(each)
        assert each["usage"]["total_tokens"] == 3
    last = told[-1]["choices"][0]
    assert (last["index"], last["finish_reason"], last["stop_reason"], last["token_ids"]) == (2, "stop", "y", [65])
    first = told[0] if kind is ChatShape else told[0]["choices"][0]
    assert first["prompt_token_ids"] == [64, 65]
    assert first["prompt_logprobs"][1]["65"]["logprob"] == -9999.0
    if kind is CompletionShape:
        assert last["logprobs"]["token_logprobs"] == [-9999.0]
        assert len(last["logprobs"]["top_logprobs"][0]) == 3


def test_tokens_that_read_alike_are_told_by_the_likeliest(tokenizer: ModelTokenizer) -> None:
    """Else a client that looks for the greedy token by its value (lm-eval does) finds the wrong one."""
    alike = [token for token in range(512) if tokenizer.bytes_of(token).decode(errors="replace") == "\ufffd"][:2]
    known = TokenLogprobs(alike[1], -3.0, 2, ((alike[0], -0.1),))
    (told,) = events(shape_of(CompletionShape, tokenizer).chunk(0, Piece("", (alike[1],), "length", None, (known,))))
    assert told["choices"][0]["logprobs"]["top_logprobs"] == [{"\ufffd": -0.1}]


class Ended(Answer):
    def __init__(self) -> None:
        self.reasons: list[str] = []
        super().__init__("r", lambda _, reason: self.reasons.append(reason))


def choice_of(tokenizer: ModelTokenizer, answer: Answer, **options: Any) -> Choice:
    params = SamplingParams(stop=tuple(options.pop("stop", ())), stop_token_ids=options.pop("stop_ids", frozenset()))
    detokenizer = Detokenizer(tokenizer, params.stop)
    return Choice(0, Prompt("p", [1]), params, answer, tokenizer, detokenizer, **options)


def test_tokens_after_a_stop_string_are_dropped(tokenizer: ModelTokenizer) -> None:
    """A step may bring several tokens; those behind the string, and what is told of them, are no part of the answer."""
    ids = tuple(tokenizer.encode("the end of it all"))
    known = tuple(TokenLogprobs(token, -1.0, 1, ()) for token in ids)
    answer = Ended()
    piece = choice_of(tokenizer, answer, stop=["of"]).take(Delta("r", ids, None, 0, known))
    assert (piece.text, piece.finish_reason, piece.stop_reason) == ("the end ", "stop", "of")
    assert tokenizer.decode(list(piece.token_ids)).endswith(" of")
    assert len(piece.logprobs) == len(piece.token_ids) < len(ids)
    assert answer.reasons == ["stop"]


def test_what_was_held_back_comes_with_the_end(tokenizer: ModelTokenizer) -> None:
    ids = tuple(tokenizer.encode("the en"))
    choice = choice_of(tokenizer, Ended(), stop=["ending"])
    held = choice.take(Delta("r", ids, None, 0))
    assert held.text == "the "
    last = choice.take(Delta("r", (2,), "stop", 0))
    assert (last.text, last.finish_reason, last.stop_reason, choice.token_ids) == ("en", "stop", None, [*ids, 2])


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize(("reason", "status"), [("deadline", 504), ("abort", 503), ("error", 500)])
def test_an_engine_that_gives_up_is_a_refusal(
    tokenizer: ModelTokenizer, reason: Any, status: int, silent: bool
) -> None:
    with pytest.raises(RequestRefused) as refused:
        choice_of(tokenizer, Ended(), silent=silent).take(Delta("r", (), reason, 0))
    assert refused.value.status == status
