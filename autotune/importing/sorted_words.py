"""SortedWords: what is left of a command once its knobs are read, sorted by what a deployment does with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.importing.dialect import Dialect, Field
from tools.redaction import redacted
from tools.targets.tables.value_word import is_unexpanded

__all__ = ["LeftOut", "SortedWords", "sort_variables", "sort_words"]

_SECRET_FLAG = re.compile(r"(?:^|[-_])(?:api-?key|token|password|passwd|secret|credentials?)$")
_SECRET_NAME = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)S?$")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SWITCH = re.compile(r"--(?:enable|disable|no|trust)-")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")

_ADDRESS = "each trial gets an address of its own on this machine"
_SECRET = "a secret, which is never copied; set it where autotune runs"
_FILLED_IN = "its value is filled in elsewhere"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the source that the deployment doesn't have. A secret is named, and nothing of its value."""

    what: str
    why: str


@dataclass
class SortedWords:
    """Words and variables apart."""

    fields: dict[Field, str] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    "The owner's own arguments, to be passed as they stand."
    environment: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def sort_words(words: Sequence[str], dialect: Dialect, unknown: frozenset[str], found: SortedWords) -> None:
    """Sort `words`, a command's arguments without its knobs, into `found`.

    Args:
        unknown: words whose value isn't in the source.
    """
    for flag, values in _groups(words):
        if not flag:
            _sort_positional(values, dialect, unknown, found)
            continue
        name, sign, joined = flag.partition("=")
        known = name.replace("_", "-") if dialect.underscores and name.startswith("--") else name
        given = [joined, *values] if sign else list(values)
        spelled = " ".join([flag, *values])
        if known in dialect.secrets or _SECRET_FLAG.search(known) or redacted(spelled) != spelled:
            found.left_out.append(LeftOut(name, _SECRET))
        elif dialect.flags.get(known) == "address":
            found.left_out.append(LeftOut(spelled, _ADDRESS))
        elif any(_is_unknown(word, unknown) for word in (flag, *given)):
            found.left_out.append(LeftOut(spelled, _FILLED_IN))
        elif known in dialect.flags and given:
            found.fields[dialect.flags[known]] = given[0]
            found.left_out += [LeftOut(extra, f"a further value of {name}") for extra in given[1:]]
        elif dialect.positional and _SWITCH.match(known) and len(values) == 1 and _REPOSITORY.fullmatch(values[0]):
            found.own.append(flag)  # a switch, and behind it the model, which may stand anywhere
            found.fields.setdefault("model", values[0])
        else:
            found.own += (flag, *values)


def _sort_positional(words: Sequence[str], dialect: Dialect, unknown: frozenset[str], found: SortedWords) -> None:
    for word in words:
        if _is_unknown(word, unknown):
            found.left_out.append(LeftOut(word, _FILLED_IN))
        elif dialect.positional and "model" not in found.fields:
            found.fields["model"] = word
        else:
            found.left_out.append(LeftOut(word, "a word that is no argument of a flag"))


def sort_variables(variables: Mapping[str, str], dialect: Dialect, found: SortedWords, *, elsewhere: bool) -> None:
    """Sort `variables`, an environment without the knobs in it, into `found`.

    Args:
        elsewhere: whether paths in them aren't this machine's.
    """
    for name, value in variables.items():
        spelled = f"{name}={value}"
        if _SECRET_NAME.search(name) or redacted(spelled) != spelled:
            found.left_out.append(LeftOut(name, _SECRET))
        elif dialect.variables.get(name) == "address":
            found.left_out.append(LeftOut(spelled, _ADDRESS))
        elif is_unexpanded(value):
            found.left_out.append(LeftOut(spelled, _FILLED_IN))
        elif name in dialect.variables:
            found.fields.setdefault(dialect.variables[name], value)
        elif not _VARIABLE.fullmatch(name):
            found.left_out.append(LeftOut(spelled, "no name that a deployment takes for a variable"))
        elif elsewhere and value.startswith("/"):
            found.left_out.append(LeftOut(spelled, "a path inside the container"))
        else:
            found.environment[name] = value


def _is_unknown(word: str, unknown: frozenset[str]) -> bool:
    """Whether nobody knows here what the engine gets; a folder below one's home is known everywhere."""
    return is_unexpanded(word) or (word in unknown and not word.startswith("~/"))


def _groups(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each flag with the words up to the next one; the words before all flags have an empty one."""
    flag, values = "", list[str]()
    for word in words:
        if re.match(r"-{1,2}[A-Za-z]", word):
            if flag or values:
                yield flag, tuple(values)
            flag, values = word, []
        else:
            values.append(word)
    if flag or values:
        yield flag, tuple(values)
