"""One table: what it says is what the flags take, what the docs show and what is checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import EngineKnobs, StartRefused, knob_table
from engine.__main__ import parser
from engine.flags import knobs_from
from engine.knob_page import knob_page

ROWS = {row.name: row for row in knob_table()}


def from_flags(*flags: str) -> EngineKnobs:
    return knobs_from(parser().parse_args(["serve", "some/model", *flags]))


def test_every_field_is_a_row_with_a_meaning_and_a_valid_default() -> None:
    assert [row.name for row in knob_table()] == [field.name for field in dataclasses.fields(EngineKnobs)]
    for row in knob_table():
        assert row.check(row.default) == row.default
        assert row.meaning.endswith(".")
        assert row.kind != "int" or (row.low is not None and row.high is not None and row.unit)
    assert EngineKnobs().to_dict() == {row.name: row.default for row in knob_table()}


def test_what_bounds_service_is_not_tunable() -> None:
    fixed = {row.name for row in knob_table() if not row.tunable}
    assert fixed == {"max_model_len", "max_queue_len", "device", "kernels", "async_scheduling", "cuda_graphs"}
    assert {row.name for row in knob_table() if row.outputs == "lossy"} == {"dtype", "quantization", "kv_cache_dtype"}


@given(st.integers(1, 16), st.integers(16, 16384), st.sampled_from([16, 32, 64]), st.booleans())
def test_flags_say_the_same_as_values(seqs: int, batched: int, block: int, caching: bool) -> None:
    flags = from_flags(
        *("--max-num-seqs", str(seqs), "--max-num-batched-tokens", str(batched), "--block-size", str(block)),
        "--enable-prefix-caching" if caching else "--no-enable-prefix-caching",
    )
    assert flags == EngineKnobs(
        max_num_seqs=seqs,
        max_num_batched_tokens=batched,
        block_size=block,  # type: ignore[arg-type]
        enable_prefix_caching=caching,
    )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--max-num-seqs", "0"), "--max-num-seqs: expected 1 to 512 sequences, found 0"),
        (("--max-num-seqs", "many"), "--max-num-seqs: expected a whole number, found 'many'"),
        (("--max-num-seqs", "4.5"), "--max-num-seqs: expected a whole number, found 4.5"),
        (("--block-size", "24"), "--block-size: expected one of 16, 32, 64, found '24'"),
        (("--dtype", "int8"), "--dtype: expected one of auto, bf16, fp16, fp32, found 'int8'"),
        (("--max-num-sequences", "4"), "unknown flag --max-num-sequences; did you mean --max-num-seqs?"),
        (("--max-num-seqs", "64", "--max-num-batched-tokens", "32"), "a step must hold one token of each sequence"),
    ],
)
def test_a_bad_flag_is_refused_in_one_sentence(flags: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(StartRefused) as refusal:
        from_flags(*flags)
    assert sentence in refusal.value.sentence
    assert refusal.value.kind == "bad_config"


def test_an_unknown_knob_gets_a_suggestion() -> None:
    with pytest.raises(StartRefused, match="unknown knob 'kv_cache_token'; did you mean 'kv_cache_tokens'"):
        EngineKnobs.from_values({"kv_cache_token": 512})
    with pytest.raises(StartRefused, match="true or false"):
        EngineKnobs.from_values({"enable_prefix_caching": 1})
    with pytest.raises(StartRefused, match="whole number"):
        EngineKnobs.from_values({"max_num_seqs": True})


def test_the_page_shows_the_table_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    assert knob_page() in page
