"""KnobRow: one line of a knob table, as it stands in its YAML file."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.errors import UserError
from tools.targets.knobs import Knob, KnobError, Value
from tools.targets.tables.versions import Version, VersionRange

__all__ = ["Alias", "Further", "KnobRow"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Ranged(_Strict):
    versions: str = ""
    "The part of the table's versions that this is about; empty: all of them."

    @field_validator("versions")
    @classmethod
    def _is_range(cls, text: str) -> str:
        try:
            VersionRange.parse(text)
        except UserError as error:
            raise ValueError(str(error)) from None
        return text

    @cached_property
    def range(self) -> VersionRange:
        return VersionRange.parse(self.versions)


class Alias(_Ranged):
    """Another spelling of a row's flag."""

    flag: str = Field(pattern=r"^-")


class Further(_Ranged):
    """Choices that a part of the versions has besides the row's."""

    choices: tuple[Value, ...] = Field(min_length=1)


class KnobRow(_Ranged):
    """One knob: how it is spelled, what it takes, what it does. A flag, a variable, or both (the flag then wins)."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    meaning: str = Field(min_length=1)
    flag: str = Field(default="", pattern=r"^(-.*)?$")
    "Followed by the value; for a bool without `words`, what says true."
    false_flag: str = Field(default="", pattern=r"^(-.*)?$")
    "What says false; a bool that has none says false by its flag's absence."
    aliases: tuple[Alias, ...] = ()
    false_aliases: tuple[Alias, ...] = ()
    glued: str = ""
    "A flag that its value stands behind without a space: -O for -O3."
    variable: str = Field(default="", pattern=r"^([A-Z][A-Z0-9_]*)?$")
    "An environment variable that holds the value."
    key: str = ""
    "Where the flag takes a JSON object: the member that is this knob, dots between levels."
    beside: dict[str, Any] = {}
    "Members that the object needs besides `key`, written where the flag isn't there yet."
    words: dict[Literal["true", "false"], tuple[str, ...]] = {}
    "For a bool whose flag takes a word: the words of each value, the one to write first."
    open_words: tuple[str, ...] = ()
    "Words that leave the choice to the engine, where they are no value of the knob."
    human: bool = False
    "Whether the engine reads 8k as 8000 and 8K as 8192."

    kind: Literal["bool", "int", "float", "choice"]
    default: Value | None = None
    "What the engine's help says the default is. Exactly one of `default` and `usual` is given."
    usual: Value | None = None
    "Where the engine chooses for itself: a value that it commonly chooses."
    silence: Value | None = None
    "A value that no word says, only the flag's absence. For the key of an object: the whole object's absence."
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()
    further: tuple[Further, ...] = ()
    unit: str = ""
    live: bool = False
    outputs: Literal["lossless", "lossy"] = "lossless"
    tunable: bool = True
    only_when: dict[str, tuple[Value, ...]] = Field(default={}, max_length=1)
    effective: str = ""
    "Its name in the server's own word on its config; by default the knob's name."

    @field_validator("aliases", "false_aliases", mode="before")
    @classmethod
    def _spelled_out(cls, given: Any) -> Any:
        """A bare word is short for `{flag: word}`."""
        return [{"flag": each} if isinstance(each, str) else each for each in given]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not (self.flag or self.variable):
            raise ValueError("expected a flag or a variable, found neither")
        if not self.flag and (self.false_flag or self.aliases or self.key):
            raise ValueError("false_flag, aliases and key belong to a flag, and there is none")
        if (self.default is None) == (self.usual is None):
            raise ValueError("expected either a default or, where the engine chooses, a usual value")
        if (self.false_flag or self.false_aliases or self.words) and self.kind != "bool":
            raise ValueError(f"false_flag and words belong to a bool, found a {self.kind}")
        if self.words and (self.false_flag or not all(self.words.get(sense) for sense in ("true", "false"))):
            raise ValueError("words: expected some for true and some for false, and no false_flag")
        if self.kind in ("int", "float") and (self.low is None or self.high is None):
            raise ValueError("a number needs low and high")
        if self.log and not (self.low is not None and self.low > 0):
            raise ValueError("log needs a low above 0")
        if self.beside and not self.key:
            raise ValueError("beside belongs to a key")
        try:
            for value in (self.default, self.usual, self.silence):
                if value is not None:
                    self.knob.check(value)
        except KnobError as error:
            raise ValueError(str(error)) from None
        return self

    @cached_property
    def knob(self) -> Knob:
        value = self.default if self.default is not None else self.usual
        assert value is not None
        condition = next(iter(self.only_when.items()), None)
        return Knob(
            self.name,
            self.kind,
            value,
            self.meaning,
            low=self.low,
            high=self.high,
            log=self.log,
            choices=self.choices,
            unit=self.unit,
            live=self.live,
            outputs=self.outputs,
            tunable=self.tunable,
            auto="auto" if "auto" in self.choices else None,
            flag=self.flag or self.variable,
            only_when=condition,
        )

    def at(self, version: Version) -> KnobRow:
        """The row with the aliases and choices of that version."""
        more = (choice for each in self.further if version in each.range for choice in each.choices)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return KnobRow(
            **fields
            | {
                "aliases": tuple(alias for alias in self.aliases if version in alias.range),
                "false_aliases": tuple(alias for alias in self.false_aliases if version in alias.range),
                "choices": (*self.choices, *more),
                "further": (),
            }
        )

    @property
    def is_switch(self) -> bool:
        """Whether the flag alone says the value, with no word after it."""
        return self.kind == "bool" and not self.words and not self.key and bool(self.flag)

    def is_silent(self, value: Value) -> bool:
        """Whether only the flag's absence says `value`."""
        unsaid = False if self.is_switch and not self.false_flag else self.silence
        return unsaid is not None and type(unsaid) is type(value) and unsaid == value
