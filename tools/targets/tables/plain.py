"""Plain knobs on a command line: a flag with or without a word after it, or a variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.targets.knobs import KnobError, Value
from tools.targets.tables.row import KnobRow
from tools.targets.tables.said import Said
from tools.targets.tables.value_word import is_open, is_unexpanded, value_of, word_of
from tools.targets.tables.word_edit import Delete, Replace, SetVariable, WordEdit

__all__ = ["change_plain", "read_plain_row", "words_for"]


def words_for(row: KnobRow, value: Value) -> tuple[str, ...]:
    """The words that say `value` where none do yet; none where only silence says it, or a variable."""
    if row.is_silent(value) or not row.flag:
        return ()
    if row.is_switch:
        return (row.flag if value else row.false_flag,)
    return (row.flag, word_of(row, value))


def read_plain_row(row: KnobRow, said: Sequence[Said], environment: Mapping[str, str]) -> Value | None:
    """What the last of `said`, all of them the row's, says, or else its variable; None: the engine chooses.

    Raises:
        KnobError: a value that the knob can't take.
    """
    if said:
        last = said[-1]
        if last.form == "alone":
            return last.sense
        return None if last.unexpanded or is_open(row, last.value) else value_of(row, last.value)
    word = environment.get(row.variable) if row.variable else None
    return None if word is None or is_unexpanded(word) or is_open(row, word) else value_of(row, word)


def change_plain(
    row: KnobRow, value: Value | None, words: Sequence[str], said: Sequence[Said], environment: Mapping[str, str]
) -> Iterator[WordEdit | tuple[str, ...]]:
    """The edits after which `row` says `value`, and nothing where that is None; words alone are to be added.

    Raises:
        KnobError: the value comes from somewhere else, through a variable or a template.
    """
    variable = environment.get(row.variable) if row.variable else None
    _refuse_unexpanded(row, said[-1].value if said else variable or "")
    if value is None or row.is_silent(value):
        yield from (Delete(each.at, each.count) for each in said)
        if variable is not None:
            yield SetVariable(row.variable, None)
    elif said:
        last = said[-1]
        if not _says(row, last, value):
            yield _replaced(row, last, value, words)
    elif variable is not None or not row.flag:
        if variable is None or not _word_says(row, variable, value):
            yield SetVariable(row.variable, word_of(row, value))
    else:
        yield words_for(row, value)


def _refuse_unexpanded(row: KnobRow, word: str) -> None:
    if is_unexpanded(word):
        raise KnobError(f"knob {row.name} is said by {word!r}, which is filled in elsewhere; change it there")


def _says(row: KnobRow, said: Said, value: Value) -> bool:
    return said.sense is value if said.form == "alone" else _word_says(row, said.value, value)


def _word_says(row: KnobRow, word: str, value: Value) -> bool:
    try:
        return value_of(row, word) == value
    except KnobError:
        return False  # an open word, or a value that the knob can't take: to be replaced


def _replaced(row: KnobRow, said: Said, value: Value, words: Sequence[str]) -> Replace:
    before, word = words[said.at], word_of(row, value)
    match said.form:
        case "alone":
            flag = row.flag if value else row.false_flag
            as_before = "_" in before and flag.startswith("--")
            return Replace(said.at, "--" + flag[2:].replace("-", "_") if as_before else flag)
        case "apart":
            return Replace(said.at + 1, word)
        case "joined" | "glued":
            return Replace(said.at, before.removesuffix(said.value) + word)
