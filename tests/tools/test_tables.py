"""Knob tables: values spelled on a command line, read back from it, and changed in it without touching the rest."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.targets.engine_name import EngineName
from tools.targets.knobs import KnobError, Value
from tools.targets.tables import KnobTable, table_for
from tools.targets.tables.row import KnobRow
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, edited

ENGINES: tuple[EngineName, ...] = ("vllm", "sglang", "llamacpp")
OTHERS = (["serve", "some/model"], ["--host", "127.0.0.1"], ["--served-model-name", "a", "b"], ["--port=8000"], ["--x"])
"Words that are no knob, some with values."


def values_of(row: KnobRow) -> st.SearchStrategy[Value]:
    if row.kind == "bool":
        return st.booleans()
    if row.kind == "choice":
        return st.sampled_from(row.choices)
    assert row.low is not None and row.high is not None
    if row.kind == "int":
        return st.integers(int(row.low), int(row.high))
    return st.floats(row.low, row.high)


@st.composite
def assignments(draw: st.DrawFn, table: KnobTable) -> dict[str, Value]:
    names = draw(st.lists(st.sampled_from(sorted(table.rows)), unique=True, max_size=6))
    return {name: draw(values_of(table.rows[name])) for name in names}


@st.composite
def command_lines(
    draw: st.DrawFn, table: KnobTable
) -> tuple[list[str], dict[str, str], dict[str, Value], tuple[str, ...]]:
    """Words and variables as people write them: aliases, equals signs, underscores, the same flag twice; and what they
    say, and their words that are no knob."""
    before = draw(assignments(table))
    pieces: list[tuple[list[str], bool]] = [(list(words), False) for words in draw(st.permutations(OTHERS))]
    variables: dict[str, str] = {"OMP_NUM_THREADS": "2"}
    for name, value in before.items():
        row = table.rows[name]
        spelled = table.spell({name: value})
        if row.variable and row.flag and not row.is_silent(value) and draw(st.booleans()):
            variables[row.variable] = spelled.arguments[-1] if not row.is_switch else "1" if value else "0"
            continue
        variables |= spelled.environment
        words = list(spelled.arguments)
        if words and not row.key:
            if row.aliases and words[0] == row.flag:
                words[0] = draw(st.sampled_from([row.flag, *(alias.flag for alias in row.aliases)]))
            if table.underscores and words[0].startswith("--") and draw(st.booleans()):
                words[0] = "--" + words[0][2:].replace("-", "_")
            if table.equals and len(words) == 2 and draw(st.booleans()):
                words = ["=".join(words)]
        if words and not row.key and len(words) == 2 and draw(st.booleans()):
            pieces.insert(0, (list(table.spell({name: row.knob.default}).arguments), True))  # a later one wins
        pieces.append((words, True))
    # All knobs of one object stand in one word.
    objects = {name: value for name, value in before.items() if table.rows[name].key}
    if len(objects) > 1:
        pieces = [piece for piece in pieces if not piece[1] or not _is_object(table, piece[0])]
        pieces.append((list(table.spell(objects).arguments), True))
    words = [word for piece, _ in pieces for word in piece]
    rest = tuple(word for piece, is_knob in pieces if not is_knob for word in piece)
    return words, variables, table.spoken(before), rest


def _is_object(table: KnobTable, words: Sequence[str]) -> bool:
    return bool(words) and any(row.key and row.flag == words[0] for row in table.rows.values())


def changed(table: KnobTable, before: Mapping[str, Value], changes: Mapping[str, Value | None]) -> dict[str, Value]:
    after = {**before, **{name: value for name, value in changes.items() if value is not None}}
    return table.spoken({name: value for name, value in after.items() if changes.get(name, value) is not None})


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_spelled_is_read_back(engine: EngineName, data: st.DataObject) -> None:
    table = table_for(engine)
    values = data.draw(assignments(table))
    spelled = table.spell(values)
    read = table.read(spelled.arguments, spelled.environment)
    assert read.values == table.spoken(values)
    assert read.rest == () and read.environment == {}


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_edits_change_what_they_are_asked_to_and_nothing_else(engine: EngineName, data: st.DataObject) -> None:
    table = table_for(engine)
    words, variables, before, rest = data.draw(command_lines(table))
    read = table.read(words, variables)
    assert read.values == before
    assert read.rest == rest and read.environment == {"OMP_NUM_THREADS": "2"}

    gone = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    changes: dict[str, Value | None] = {**data.draw(assignments(table)), **dict.fromkeys(gone)}
    edits = table.edits(words, variables, changes)
    after = table.read(*edited(words, variables, edits))
    assert after.values == changed(table, before, changes)
    assert after.rest == rest and after.environment == read.environment
    assert table.edits(*edited(words, variables, edits), changes) == (), "a second time there is nothing to do"
    touched = [edit for edit in edits if not isinstance(edit, SetVariable | Insert)]
    knobs = [row for row in table.rows.values() if row.name in changes]
    flags = {spelling.strip("-").replace("_", "-") for row in knobs for spelling in _spellings(row)}
    for edit in touched:
        said = words[edit.at] if words[edit.at].startswith("-") else words[edit.at - 1]
        name = said.partition("=")[0].strip("-").replace("_", "-")
        assert name in flags or said.startswith("-O"), f"{edit} touches {said}, which no change names"


def _spellings(row: KnobRow) -> list[str]:
    aliases = [alias.flag for alias in (*row.aliases, *row.false_aliases)]
    return [spelling for spelling in (row.flag, row.false_flag, row.glued, *aliases) if spelling]


def test_an_edit_replaces_the_one_word_that_says_the_value() -> None:
    table = table_for("vllm")
    words = shlex.split("serve m --max_num_seqs=8 -O3 --max-num-seqs 16 --no_enable_prefix_caching -q awq")
    changes: dict[str, Value | None] = {
        "max_num_seqs": 32,
        "optimization_level": 1,
        "enable_prefix_caching": True,
        "quantization": None,
        "block_size": 32,
    }
    assert table.edits(words, {}, changes) == (
        Replace(3, "-O1"),
        Replace(5, "32"),
        Replace(6, "--enable_prefix_caching"),
        Delete(7, 2),
        Insert(9, ("--block-size", "32")),
    )


def test_members_of_an_object_are_knobs_and_the_others_stay() -> None:
    table = table_for("vllm")
    words = ["--speculative-config", '{"method":"eagle3","model":"some/head","num_speculative_tokens":3}', "-cc.mode=2"]
    read = table.read(words)
    assert read.values == {"compilation_mode": 2, "num_speculative_tokens": 3}
    assert read.rest == ("--speculative-config", '{"method":"eagle3","model":"some/head"}')
    more, _ = edited(words, {}, table.edits(words, {}, {"num_speculative_tokens": 5, "cudagraph_mode": "FULL"}))
    assert more == (
        "--speculative-config",
        '{"method":"eagle3","model":"some/head","num_speculative_tokens":5}',
        "-cc.mode=2",
        "-cc.cudagraph_mode",
        "FULL",
    )
    off, _ = edited(words, {}, table.edits(words, {}, {"num_speculative_tokens": 0}))
    assert off == ("-cc.mode=2",)
    merged = table.command(read.rest, {}, {"num_speculative_tokens": 4})
    assert json.loads(merged.arguments[1]) == {"method": "eagle3", "model": "some/head", "num_speculative_tokens": 4}


def test_dotted_members_win_over_the_object_and_two_spellings_of_them_are_refused() -> None:
    """As vLLM's own parser has it: it puts the dotted ones behind all others, and reads the last."""
    table = table_for("vllm")
    assert table.read(["-cc.mode", "1", "-cc", '{"mode": 3}']).values == {"compilation_mode": 1}
    with pytest.raises(KnobError, match="one flag"):
        table.read(["-cc.mode=1", "--compilation-config.mode=2"])


@pytest.mark.parametrize("word", ["$SEQS", "${SEQS:-8}", "$(SEQS)", "{{ .Values.seqs }}"])
def test_a_word_that_is_filled_in_elsewhere_is_neither_read_nor_changed(word: str) -> None:
    table = table_for("vllm")
    words = ["--max-num-seqs", "4", "--max-num-seqs", word]
    assert table.read(words).rest == tuple(words)
    with pytest.raises(KnobError, match="filled in elsewhere"):
        table.edits(words, {}, {"max_num_seqs": 8})


def test_numbers_as_people_write_them_count_where_the_engine_takes_them() -> None:
    read = table_for("vllm").read(
        ["--max-model-len", "32k", "--max-num-batched-tokens=8K", "--kv-cache-memory-bytes=2G"]
    )
    assert read.values == {"max_num_batched_tokens": 8192, "kv_cache_memory_bytes": 2 << 30, "max_model_len": 32_000}
    with pytest.raises(KnobError, match="max_num_seqs"):
        table_for("vllm").read(["--max-num-seqs", "1k"])


def test_words_that_leave_the_choice_to_the_engine_are_no_value_and_give_way_to_one() -> None:
    table = table_for("llamacpp")
    words = ["-np", "-1", "-fa", "auto", "--ctx-size", "0"]
    assert table.read(words) == table.read(words, {})
    assert table.read(words).values == {} and table.read(words).rest == tuple(words)
    after, _ = edited(words, {}, table.edits(words, {}, {"parallel": 4, "flash_attn": True}))
    assert after == ("-np", "4", "-fa", "on", "--ctx-size", "0")


def test_a_flag_wins_over_the_variable_and_a_variable_is_changed_where_it_stands() -> None:
    table = table_for("llamacpp")
    environment = {"LLAMA_ARG_BATCH": "512", "LLAMA_ARG_CONT_BATCHING": "off", "HOME": "/root"}
    read = table.read(["-b", "1024"], environment)
    assert read.values == {"batch": 1024, "cont_batching": False} and read.environment == {"HOME": "/root"}
    edits = table.edits(["-b", "1024"], environment, {"batch": None, "cont_batching": True})
    assert edits == (Delete(0, 2), SetVariable("LLAMA_ARG_BATCH", None), SetVariable("LLAMA_ARG_CONT_BATCHING", "1"))


def test_llama_takes_no_equals_sign_and_sglang_no_underscores() -> None:
    assert table_for("llamacpp").read(["--ctx-size=64"]).rest == ("--ctx-size=64",)
    assert table_for("sglang").read(["--max_running_requests", "8"]).rest == ("--max_running_requests", "8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-num-seqs"], "expected a value"),
        (["--max-num-seqs", "--port"], "expected a value"),
        (["--max-num-seqs", "many"], "whole number"),
        (["--max-num-seqs=0"], "1 to 4096"),
        (["--enforce-eager=true"], "expected no value"),
        (["--compilation-config", "{mode: 3}"], "JSON object"),
        (["--scheduling-policy", "lifo"], "one of fcfs, priority"),
    ],
)
def test_what_the_engine_would_refuse_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(KnobError, match=said):
        table_for("vllm").read(words)


def test_a_part_of_a_table_leaves_the_other_knobs_in_the_rest_and_knows_that_their_flags_take_values() -> None:
    part = table_for("vllm").only({"max_num_seqs"})
    read = part.read(["--block-size", "16", "--max-num-seqs", "8"])
    assert read.values == {"max_num_seqs": 8} and read.rest == ("--block-size", "16")
    with pytest.raises(KnobError, match="did you mean 'max_num_seqs'"):
        part.only({"max_num_seq"})
