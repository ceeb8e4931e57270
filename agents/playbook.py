"""Playbook: what an expert would look at and try for one goal, in a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agents.actions import ActionKind, Direction
from agents.engines import FOREIGN, EngineName
from agents.expression import Expression
from agents.view import HARDWARE_FACTS, WORKLOAD_FACTS
from tools.errors import UserError
from tools.measure.summary import METRICS
from tools.targets.knobs import Value

__all__ = [
    "KNOB_GROUPS",
    "Hypothesis",
    "Playbook",
    "Stop",
    "load_playbook",
    "playbook_names",
    "playbooks_digest",
]

_CLOSED_GROUPS: Mapping[str, frozenset[str]] = {
    "workload": frozenset(WORKLOAD_FACTS),
    "hardware": frozenset(HARDWARE_FACTS),
    "metrics": frozenset(METRICS),
    "slo": frozenset(METRICS),
}
KNOB_GROUPS: Mapping[str, str] = {
    "config": "the config one stands on: the best so far, with the hypotheses before this one applied",
    "baseline": "the config the run began with",
    "least": "the least that the knob may be in this deployment, where it is a number",
    "most": "the most that the knob may be in this deployment; for a KV cache, what fits beside the weights",
}
"""Groups of facts whose names are knobs: `config.max_num_seqs`."""


def _readable(value: Value) -> Value:
    if isinstance(value, str):
        Expression(value)
    return value


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}{_hint(name, METRICS)}")
    return name


ExpressionText = Annotated[str, Field(max_length=500), AfterValidator(_readable)]
_IMPLIED: Mapping[ActionKind, ActionKind] = {"search": "weigh", "inspect": "profile"}


def _with_implied(kinds: tuple[ActionKind, ...]) -> tuple[ActionKind, ...]:
    return tuple(dict.fromkeys([*kinds, *(_IMPLIED[kind] for kind in kinds if kind in _IMPLIED)]))


Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Hypothesis(_Strict):
    """One piece of knowledge: where `when` holds, the values in `attempt` should move the metrics in `expect`."""

    id: Id
    when: ExpressionText
    attempt: dict[str, Annotated[Value, AfterValidator(_readable)]] = Field(alias="try", min_length=1)
    "Knob -> value. A string is an expression; a word as a value stands in quotes inside it: \"'bf16'\"."
    expect: dict[Annotated[str, AfterValidator(_metric)], Direction] = Field(min_length=1)
    why: str = Field(min_length=1, max_length=400)
    alone: bool = False
    "Tried by itself, never with the others: whether it helps here can only be measured."
    engines: tuple[EngineName, ...] = Field(default=("bundled",), alias="for", min_length=1)
    "Whose knobs these are. A target without one of them is none of them, and the hypothesis is passed over there."

    @property
    def names(self) -> frozenset[str]:
        """Every name that its expressions use."""
        sources = [self.when, *(value for value in self.attempt.values() if isinstance(value, str))]
        return frozenset().union(*(Expression(source).names for source in sources))

    def knob_names(self) -> frozenset[str]:
        """The knobs that it sets or looks at."""
        looked_at = {name.partition(".")[2] for name in self.names if name.partition(".")[0] in KNOB_GROUPS}
        return frozenset(self.attempt) | looked_at


class Stop(_Strict):
    """When enough has been tried."""

    min_trials: int = Field(default=3, ge=0, le=1000)
    "Trials besides the baseline, of any outcome, before exploring may end."
    patience: int = Field(default=4, ge=1, le=1000)
    "Search trials in a row without a gain beyond the noise, after which exploring ends."


class Playbook(_Strict):
    """Goal, allowed actions, hypotheses and the rules of search, for one kind of deployment."""

    name: Id
    goal: str
    allowed_actions: Annotated[tuple[ActionKind, ...], AfterValidator(_with_implied)] = Field(min_length=1)
    "What a proposer may say. Who may search may say where, and who may inspect may ask what the run has recorded."
    define: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], ExpressionText] = {}
    "Names for expressions that several hypotheses use, in order: a later one may use an earlier one."
    hypotheses: tuple[Hypothesis, ...] = ()
    explore_share: float = Field(default=0.25, gt=0, le=1)
    "Least share of search turns that ignore what was learned and believed."
    verifiers: tuple[Id, ...] = Field(min_length=1)
    "Rule families that have to pass before a commit. The gate may ask for more, never for less."
    stop: Stop = Stop()

    @model_validator(mode="after")
    def _names_are_known(self) -> Playbook:
        known: set[str] = set()
        for name, source in self.define.items():
            _check_names(f"define.{name}", Expression(source).names, known)
            known.add(name)
        for hypothesis in self.hypotheses:
            _check_names(f"hypothesis {hypothesis.id}", hypothesis.names, known)
        ids = [hypothesis.id for hypothesis in self.hypotheses]
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            raise ValueError(f"hypothesis {twice[0]}: this id is used twice")
        return self

    def for_engine(self, engine: EngineName | None) -> Playbook:
        """This playbook with the hypotheses alone that are meant for `engine`; with none for an engine of no name."""
        theirs = tuple(each for each in self.hypotheses if engine in each.engines)
        return self.model_copy(update={"hypotheses": theirs})

    def check_knobs(self, config: Mapping[str, Value], engine: EngineName = "bundled") -> None:
        """Whether every knob that is named for `engine` is one of the target's, whose full config is `config`.

        Raises:
            UserError: an unknown knob; the message names the hypothesis and suggests the nearest name.
        """
        for hypothesis in self.hypotheses:
            if engine in hypothesis.engines:
                self._require(f"hypothesis {hypothesis.id}", hypothesis.knob_names(), config)
        known = frozenset(config).union(*(space.knobs for space in FOREIGN.values()))
        for name, source in self.define.items() if engine == "bundled" else ():
            used = (used.partition(".") for used in Expression(source).names)
            self._require(f"define.{name}", frozenset(knob for group, _, knob in used if group in KNOB_GROUPS), known)

    def _require(self, place: str, knobs: frozenset[str], known: Mapping[str, Value] | frozenset[str]) -> None:
        for knob in sorted(knobs.difference(known)):
            raise UserError(f"playbook {self.name}, {place}: unknown knob {knob!r}{_hint(knob, known)}")


def _check_names(place: str, names: frozenset[str], defined: set[str]) -> None:
    for name in sorted(names):
        group, _, fact = name.partition(".")
        if not fact:
            if name not in defined:
                known = [*defined, *(f"{group}.…" for group in sorted(KNOB_GROUPS.keys() | _CLOSED_GROUPS.keys()))]
                raise ValueError(f"{place}: unknown name {name!r}; known: {', '.join(known)}")
        elif group not in KNOB_GROUPS and fact not in _CLOSED_GROUPS.get(group, ()):
            choices = [f"{group}.{known}" for group, facts in _CLOSED_GROUPS.items() for known in facts]
            raise ValueError(f"{place}: unknown name {name!r}{_hint(name, choices)}")


def _hint(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def load_playbook(source: str | Path) -> Playbook:
    """The playbook called `source`, or the one in the file at `source` (a path, or a name that ends in .yaml).

    Raises:
        UserError: no such playbook or file, not YAML, an unknown key, name, metric or action; the place is named.
    """
    text, place = _read(source)
    data = _parsed(text, place)
    if isinstance(data, dict) and "borrow" in data:
        data = _with_borrowed(data, place)
    try:
        return Playbook.model_validate(data)
    except ValidationError as error:
        problems = [f"  {_where(problem['loc'], data)}: {_what(problem)}" for problem in error.errors()]
        raise UserError("\n".join([f"{place}: not a valid playbook", *problems])) from None


def playbook_names() -> tuple[str, ...]:
    """The playbooks that are shipped, by name."""
    return tuple(sorted(_shipped()))


def playbooks_digest() -> str:
    """sha256 over all shipped playbooks: each one's name and the sha256 of its text, by name.

    Whoever judges advice freezes it first: a surface that was recorded under this digest was seen by no playbook.
    """
    total = sha256()
    for name, text in sorted(_shipped().items()):
        total.update(f"{name} {sha256(text.encode()).hexdigest()}\n".encode())
    return total.hexdigest()


def _shipped() -> dict[str, str]:
    files = (entry for entry in resources.files("playbooks").iterdir() if entry.name.endswith(".yaml"))
    return {Path(entry.name).stem: entry.read_text(encoding="utf-8") for entry in files}


def _parsed(text: str, place: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{place}: not YAML: {error}") from None


def _with_borrowed(data: dict[str, Any], place: str) -> dict[str, Any]:
    """`data` with what it borrows written out: the lenders' definitions, and of their hypotheses those it names, first.

    Raises:
        UserError: a lender that isn't shipped or borrows itself, an id that it doesn't have, a definition that differs.
    """
    try:
        borrow = _Borrow.validate_python(data["borrow"])
    except ValidationError as error:
        raise UserError(f"{place}: borrow: expected playbook: [ids], found {error.errors()[0]['msg']}") from None
    define: dict[str, Any] = {}
    hypotheses: list[Any] = []
    for lender, ids in borrow.items():
        lent = _lender(lender)
        known = {hypothesis.id: hypothesis for hypothesis in lent.hypotheses}
        if unknown := [id_ for id_ in ids if id_ not in known]:
            raise UserError(f"{place}: borrow: {lender} has no {unknown[0]!r}{_hint(unknown[0], known)}")
        define |= lent.define
        hypotheses += [known[id_].model_dump(by_alias=True) for id_ in ids]
    own = data.get("define") or {}
    if clash := [name for name, source in own.items() if define.get(name, source) != source]:
        raise UserError(f"{place}: define.{clash[0]}: a playbook that it borrows from says something else")
    rest = {key: value for key, value in data.items() if key != "borrow"}
    return {**rest, "define": {**define, **own}, "hypotheses": [*hypotheses, *(data.get("hypotheses") or [])]}


@cache
def _lender(name: str) -> Playbook:
    """Most playbooks borrow from the same one."""
    return load_playbook(name)


_Borrow: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(dict[str, tuple[str, ...]])


def _read(source: str | Path) -> tuple[str, str]:
    if isinstance(source, Path) or source.endswith((".yaml", ".yml")):
        try:
            return Path(source).read_text(encoding="utf-8"), str(source)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{source}: expected a playbook file, found none that can be read: {error}") from None
    shipped = _shipped()
    if source not in shipped:
        raise UserError(
            f"playbook {source!r}: expected one of {', '.join(sorted(shipped))}, or the path of a .yaml file"
            + _hint(source, shipped)
        )
    return shipped[source], f"playbook {source}"


def _where(keys: tuple[int | str, ...], data: Any) -> str:
    """The place of a problem, a hypothesis by its id rather than by its position."""
    match keys:
        case ("hypotheses", int(index), *rest):
            return ".".join(["hypothesis " + str(data["hypotheses"][index].get("id", index)), *map(str, rest)])
        case ():
            return "playbook"
        case _:
            return ".".join(map(str, keys))


def _what(problem: Any) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"unknown key{_hint(str(problem['loc'][-1]), _KEYS)}" if problem["type"] == "extra_forbidden" else message


_KEYS = {"borrow"} | {
    field.alias or name for model in (Playbook, Hypothesis, Stop) for name, field in model.model_fields.items()
}
