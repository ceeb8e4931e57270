"""Whatever the logits say, what comes out matches the grammar."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from engine.errors import RequestRefused
from engine.grammar import Grammar
from engine.grammar_matcher import GrammarMatchers

VOCAB, EOS = 512, 2
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["a", "é", 3, None]},
        "tags": {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 70}, "maxItems": 3},
    },
    "required": ["name", "kind", "tags"],
    "additionalProperties": False,
}
PATTERN = r"[ab]{2,4}-[0-9]+(é|/)x"
LARK = 'start: "<tool>" obj+ "</tool>"\nobj: %json {"const": {"a": 1}}\n'


@pytest.fixture(scope="module")
def matchers(tiny_model: Path) -> GrammarMatchers:
    return GrammarMatchers(tiny_model, VOCAB, [EOS])


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_model / "tokenizer.json"))


def answer(matchers: GrammarMatchers, tokenizer: Tokenizer, grammar: Grammar, seed: int) -> str:
    """Text drawn from random logits under `grammar`, beside a request that has none."""
    generator = torch.Generator().manual_seed(seed)
    matchers.start("r", grammar)
    ids: list[int] = []
    for _ in range(400):
        logits = torch.randn(2, VOCAB, generator=generator) * 3
        free = logits[0].clone()
        matchers.apply(logits, ["free", "r"])
        assert torch.equal(logits[0], free)
        token = int(logits[1].argmax())
        assert logits[1, token] > -torch.inf
        if token == EOS:
            break
        assert token < tokenizer.get_vocab_size(), "padding was chosen"
        ids.append(token)
        matchers.accept("r", token)
    else:
        raise AssertionError(f"no end: {tokenizer.decode(ids)!r}")
    matchers.forget("r")
    return tokenizer.decode(ids)


def schema_holds(text: str) -> None:
    value = json.loads(text)
    assert set(value) == {"name", "kind", "tags"}
    assert len(value["name"]) <= 8
    assert value["kind"] in ["a", "é", 3, None]
    assert len(value["tags"]) <= 3
    assert all(isinstance(tag, int) and -5 <= tag <= 70 for tag in value["tags"])


@pytest.mark.parametrize(
    ("grammar", "holds"),
    [
        (Grammar("json_schema", json.dumps(SCHEMA)), schema_holds),
        (Grammar("regex", PATTERN), lambda text: re.fullmatch(PATTERN, text)[0]),
        (Grammar("choice", '["yes", "ye\\"s", "né\\n"]'), ["yes", 'ye"s', "né\n"].index),
        (Grammar("lark", LARK), lambda text: re.fullmatch(r'<tool>(\s*{\s*"a"\s*:\s*1\s*}\s*)+</tool>', text)[0]),
    ],
    ids=lambda value: value.kind if isinstance(value, Grammar) else "",
)
def test_every_answer_matches(
    matchers: GrammarMatchers, tokenizer: Tokenizer, grammar: Grammar, holds: Callable[[str], object]
) -> None:
    texts = {answer(matchers, tokenizer, grammar, seed) for seed in range(25)}
    assert len(texts) > 1
    for text in texts:
        holds(text)


def test_a_json_object_is_one_however_far_it_goes(matchers: GrammarMatchers, tokenizer: Tokenizer) -> None:
    """Random text seldom closes its strings: each prefix must still be one that JSON can go on from."""
    rng = random.Random(0)
    matchers.start("o", Grammar("json_object"))
    ids: list[int] = []
    while len(ids) < 300:
        allowed = np.unpackbits(matchers.mask(["o"]).view(np.uint8), count=VOCAB, bitorder="little").nonzero()[0]
        token = rng.choice(allowed.tolist())
        if token == EOS:
            break
        ids.append(token)
        matchers.accept("o", token)
    text = tokenizer.decode(ids)
    assert text.lstrip().startswith("{")
    if token == EOS:
        assert isinstance(json.loads(text), dict)


def test_what_is_over_allows_only_the_end(matchers: GrammarMatchers, tokenizer: Tokenizer) -> None:
    matchers.start("c", Grammar("choice", '["no"]'))
    for token in tokenizer.encode("no").ids:
        matchers.accept("c", token)
    for _ in range(2):
        assert np.unpackbits(matchers.mask(["c"]).view(np.uint8), bitorder="little").nonzero()[0].tolist() == [EOS]
        matchers.accept("c", EOS)
    matchers.forget("c")
    assert "c" not in matchers
    assert (matchers.mask(["c"]) == -1).all()


@pytest.mark.parametrize(
    ("grammar", "sentence"),
    [
        (Grammar("json_schema", '{"type": "objec"}'), "Invalid type: objec"),
        (Grammar("json_schema", "5"), "json_schema"),
        (Grammar("json_schema", '{"not": {}}'), "Unimplemented keys"),
        (Grammar("regex", "(ab"), "unclosed group"),
        (Grammar("lark", "start: nothing"), "nothing"),
        (Grammar("json_schema", '{"items":' * 500 + "{}" + "}" * 500), "recursion limit"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused(matchers: GrammarMatchers, grammar: Grammar, sentence: str) -> None:
    for check in (grammar.check, lambda: matchers.start("bad", grammar)):
        with pytest.raises(RequestRefused, match=sentence):
            check()
    assert "bad" not in matchers
