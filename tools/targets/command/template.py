"""Template: a command with places to fill in, split into words before anything is; no shell ever sees it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["PLACEHOLDERS", "Template", "unknown_placeholders"]

PLACEHOLDERS: Mapping[str, str] = {
    "model": "the model's folder or file",
    "host": "the address to listen on",
    "port": "the port to listen on",
    "name": "the name that clients send as `model`",
    "python": "the Python that runs autotune",
    "knobs": "the knobs' flags; a word of its own",
}
_PLACE = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>[A-Za-z_]\w*)\}")
_SHELL = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>"})
"A word that a shell would act on. In a list of words they are taken for words."


@dataclass(frozen=True, slots=True)
class Template:
    """The words of a command. `{port}` is filled in, `{{port}}` stands for the text `{port}`, other braces for
    themselves."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, command: str | Sequence[str]) -> Template:
        """A list of words, or a text that is split into words as a POSIX shell would.

        Raises:
            ValueError: no words, an open quotation, what a shell alone could do, or a placeholder that doesn't exist.
        """
        if isinstance(command, str):
            words = tuple(shlex.split(command))
            if shell := next((word for word in words if word in _SHELL or "$(" in word or "`" in word), None):
                raise ValueError(
                    f"{shell!r} is for a shell, and no shell runs this command; call a script of your own, "
                    "or write a list of words"
                )
        else:
            words = tuple(command)
        if not words or not words[0]:
            raise ValueError("expected a program and its arguments, found nothing")
        if any("\0" in word for word in words):
            raise ValueError("a word holds the character NUL, which no command line can")
        for word in words:
            if unknown := unknown_placeholders(word, PLACEHOLDERS):
                raise ValueError(unknown)
            if "knobs" in _names(word) and word != "{knobs}":
                raise ValueError(f"{{knobs}} becomes several words, so it has to be one of its own, found {word!r}")
        if words.count("{knobs}") > 1:
            raise ValueError("{knobs} stands there twice")
        return cls(words)

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it has."""
        return frozenset(name for word in self.words for name in _names(word))

    def filled(self, values: Mapping[str, str], knobs: Sequence[str]) -> tuple[str, ...]:
        """The words with every placeholder filled in, once: what a value holds is never looked at again."""
        made: list[str] = []
        for word in self.words:
            made += knobs if word == "{knobs}" else (filled_in(word, values),)
        return tuple(made)


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced by `values`."""
    return _PLACE.sub(lambda found: f"{{{found['literal']}}}" if found["literal"] else values[found["name"]], text)


def unknown_placeholders(text: str, known: Mapping[str, str]) -> str:
    """A sentence about the first placeholder of `text` that isn't `known`; empty where all are."""
    unknown = next((name for name in _names(text) if name not in known), None)
    if unknown is None:
        return ""
    near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.5)
    hint = f"did you mean {{{near[0]}}}?" if near else "known: " + ", ".join(f"{{{name}}}" for name in known)
    return f"unknown placeholder {{{unknown}}} in {text!r}; {hint} (as a text of its own write {{{{{unknown}}}}})"


def _names(text: str) -> list[str]:
    return [found["name"] for found in _PLACE.finditer(text) if found["name"]]
