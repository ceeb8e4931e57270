"""WordEdit: one change of a command's words or of its environment, whatever file they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Delete", "Insert", "Replace", "SetVariable", "WordEdit", "edited"]


@dataclass(frozen=True, slots=True)
class Replace:
    """The word at `at`, counted from 0, becomes `word`."""

    at: int
    word: str


@dataclass(frozen=True, slots=True)
class Insert:
    """`words` come before the word at `at`; at the end where `at` is the number of words."""

    at: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """`count` words go, the one at `at` first."""

    at: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class SetVariable:
    """The environment variable `name` becomes `value`; None takes it out."""

    name: str
    value: str | None


WordEdit = Replace | Insert | Delete | SetVariable
"""Places are those of the words before any edit; edits of one command don't overlap."""


def edited(
    words: Sequence[str], environment: Mapping[str, str], edits: Sequence[WordEdit]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """`words` and `environment` after `edits`.

    Raises:
        ValueError: edits that overlap, or a place beyond the words.
    """
    result, variables = list(words), dict(environment)
    before = len(words) + 1
    for edit in sorted((edit for edit in edits if not isinstance(edit, SetVariable)), key=_place, reverse=True):
        count = edit.count if isinstance(edit, Delete) else 0 if isinstance(edit, Insert) else 1
        if edit.at < 0 or edit.at + count > min(before, len(words)):
            raise ValueError(f"{edit} overlaps another edit, or is beyond the {len(words)} words")
        before = edit.at
        new = edit.words if isinstance(edit, Insert) else (edit.word,) if isinstance(edit, Replace) else ()
        result[edit.at : edit.at + count] = new
    for change in (edit for edit in edits if isinstance(edit, SetVariable)):
        variables.pop(change.name, None)
        if change.value is not None:
            variables[change.name] = change.value
    return tuple(result), variables


def _place(edit: Replace | Insert | Delete) -> tuple[int, bool]:
    """What is inserted at a place comes before the word there, so it is done after what happens to that word."""
    return edit.at, not isinstance(edit, Insert)
