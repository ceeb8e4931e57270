"""Commands of a shell text: which words belong together, and which assignments they see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.manifests.shell_words import UnclosedQuote, Word, read_word

__all__ = ["ShellCommand", "ShellText", "read_shell"]

_GAP = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|<<-?|<>|>>|>\||[<>]&?)|&>>?")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;|&()\n]")
_OPENS = frozenset({"if", "while", "until", "for", "case", "select", "{"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_LEADS = _OPENS | _CLOSES | frozenset({"then", "else", "elif", "do", "!", "time", "function"})


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One simple command: all its words, assignments in front of them included."""

    words: tuple[Word, ...]
    depth: int
    "Blocks and subshells around it; 0: it runs whenever the text does."


@dataclass(frozen=True, slots=True)
class ShellText:
    commands: tuple[ShellCommand, ...]
    comments: tuple[str, ...]


def read_shell(text: str) -> ShellText:
    """The commands of `text`, here-documents and redirections left out.

    Raises:
        UnclosedQuote: a quote, bracket or here-document that never closes.
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.words: list[Word] = []
        self.commands: list[ShellCommand] = []
        self.comments: list[str] = []
        self.documents: list[tuple[str, bool, int]] = []

    def read(self) -> ShellText:
        text = self.text
        while self.at < len(text):
            if gap := _GAP.match(text, self.at):
                self.at = gap.end()
            elif text[self.at] == "#":
                end = text.find("\n", self.at)
                end = len(text) if end < 0 else end
                self.comments.append(text[self.at : end])
                self.at = end
            elif redirection := _REDIRECTION.match(text, self.at):
                self._redirect(redirection)
            elif operator := _OPERATOR.match(text, self.at):
                self._end_command(operator[0])
                self.at = operator.end()
                if operator[0] == "\n":
                    self._skip_documents()
            else:
                self._word()
        self._end_command("\n")
        if self.documents:
            raise UnclosedQuote(f"the here-document {self.documents[0][0]}", self.documents[0][2])
        return ShellText(tuple(self.commands), tuple(self.comments))

    def _word(self) -> None:
        word = read_word(self.text, self.at, "sh")
        if word.end == self.at:  # a character that no dialect knows, such as a carriage return
            word = Word(self.text[self.at], self.at, self.at + 1, True, (self.at,), (self.at + 1,))
        self.at = word.end
        bare = self.text[word.start : word.end]
        if not self.words and bare in _LEADS:
            self.depth = max(0, self.depth + (bare in _OPENS) - (bare in _CLOSES))
        else:
            self.words.append(word)

    def _redirect(self, operator: re.Match[str]) -> None:
        self.at = operator.end()
        if gap := _GAP.match(self.text, self.at):
            self.at = gap.end()
        target = read_word(self.text, self.at, "sh") if self.at < len(self.text) else None
        if target is None:
            return
        self.at = target.end
        if operator[0].endswith(("<<", "<<-")):
            self.documents.append((target.value, operator[0].endswith("-"), operator.start()))

    def _end_command(self, operator: str) -> None:
        if self.words:
            self.commands.append(ShellCommand(tuple(self.words), self.depth))
            self.words = []
        self.depth = max(0, self.depth + (operator == "(") - (operator == ")"))

    def _skip_documents(self) -> None:
        for delimiter, tabs, opened in self.documents:
            for line in self._lines():
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
            else:
                raise UnclosedQuote(f"the here-document {delimiter}", opened)
        self.documents = []

    def _lines(self) -> Iterator[str]:
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line, self.at = self.text[self.at : end], min(end + 1, len(self.text))
            yield line
