"""Help texts of engines, read into flags: Python's argparse (vLLM, SGLang) and llama.cpp's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.errors import UserError
from tools.targets.tables.engine_flag import EngineFlag, Takes, by_spelling

__all__ = ["read_help"]

_LLAMA_SECTION = re.compile(r"^-+ .* params -+$", re.MULTILINE)
_DEFAULT = re.compile(r"\(default:\s*((?:[^()]|\([^()]*\))*)\)")
_LLAMA_DEFAULT = re.compile(r"default:\s*('[^']*'|\"[^\"]*\"|[^\s,()]+)")
_LLAMA_ALLOWED = re.compile(r"allowed values:\s*((?:[\w.+-]+,\s*)*[\w.+-]+)")
_LLAMA_VARIABLE = re.compile(r"\(env: ([A-Z0-9_]+)\)")
_SPELLING = re.compile(r"(?:^|(?<=[ ,]))-{1,2}[A-Za-z][\w.-]*")
_BRACKETS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|<[^>]*>")
_ABOUT_COLUMN = 24
"Where argparse and llama.cpp both begin what they say of a flag, or later."


def read_help(text: str) -> dict[str, EngineFlag]:
    """Every flag that `text` tells of, under each of its spellings.

    Raises:
        UserError: there are none; the text is no help of an engine.
    """
    is_llama = _LLAMA_SECTION.search(text) is not None
    found = by_spelling(_llama_flag(*entry) if is_llama else _argparse_flag(*entry) for entry in _entries(text))
    if not found:
        raise UserError(f"expected an engine's help, found no flag in {len(text.splitlines())} lines")
    return found


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Each flag's spellings with what stands for its value, and what is said of it, both on one line."""
    heads: list[str] = []
    about: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < _ABOUT_COLUMN:
            if heads:
                yield " ".join(heads), " ".join(about)
            heads, about = [], []
            if line.lstrip().startswith("-") and _SPELLING.match(line.lstrip()):
                head, tail = _apart(line.strip())
                heads, about = [head], [tail]
        elif heads:
            about.append(line.strip())
    if heads:
        yield " ".join(heads), " ".join(about)


def _apart(line: str) -> tuple[str, str]:
    """A line's spellings, and what is said of them behind two spaces; llama.cpp puts some between spellings too."""
    for gap in re.finditer(r" {2,}", line):
        if not line[gap.end() :].startswith("-"):
            return line[: gap.start()], line[gap.end() :]
    return line, ""


def _argparse_flag(head: str, about: str) -> EngineFlag:
    spellings, value = _spelled(head)
    default = _DEFAULT.findall(about)
    said = re.sub(r"\s+", " ", default[-1]).strip() if default else None
    return EngineFlag(spellings, _takes(value), _listed(value), said)


def _llama_flag(head: str, about: str) -> EngineFlag:
    spellings, value = _spelled(head)
    allowed = _LLAMA_ALLOWED.search(about)
    choices = tuple(re.split(r",\s*", allowed[1])) if allowed else _listed(value)
    default = _LLAMA_DEFAULT.search(about)
    said = default[1].strip("'\"") if default else None
    variable = _LLAMA_VARIABLE.search(about)
    return EngineFlag(spellings, _takes(value), choices, said, variable=variable[1] if variable else "")


def _spelled(head: str) -> tuple[tuple[str, ...], str]:
    """The spellings in `head`, and what stands for the value behind them."""
    spellings = _SPELLING.findall(_BRACKETS.sub(" ", head))
    return tuple(dict.fromkeys(spellings)), _SPELLING.sub("", head).strip(" ,")


def _takes(value: str) -> Takes:
    return "nothing" if not value else "values" if value.endswith("...]") else "value"


def _listed(value: str) -> tuple[str, ...]:
    """The choices in `{a,b}`, `['a', 'b']`, `[a|b]`, `<a|b>` or `a,b`."""
    inside = re.match(r"\{(.*?)\}|\[(.*?)\]|<(.*?)>|([a-z][\w-]*(?:,[a-z][\w-]*)+)$", value)
    if inside is None or "..." in value:
        return ()
    words = re.split(r"[,|]", next(group for group in inside.groups() if group is not None))
    return tuple(word.strip(" '\"") for word in words) if len(words) > 1 else ()
