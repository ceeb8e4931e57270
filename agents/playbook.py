"""Playbook: what an expert would look at and try for one goal, in a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.actions import ActionKind
from agents.expression import Expression
from agents.view import HARDWARE_FACTS, WORKLOAD_FACTS
from tools.errors import UserError
from tools.measure.summary import METRICS
from tools.targets.knobs import Value

__all__ = ["Hypothesis", "Playbook", "Stop", "load_playbook"]

_CLOSED_GROUPS: Mapping[str, frozenset[str]] = {
    "workload": frozenset(WORKLOAD_FACTS),
    "hardware": frozenset(HARDWARE_FACTS),
    "metrics": frozenset(METRICS),
    "slo": frozenset(METRICS),
}
_KNOB_GROUPS = frozenset({"baseline", "config"})


def _readable(value: Value) -> Value:
    if isinstance(value, str):
        Expression(value)
    return value


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}{_hint(name, METRICS)}")
    return name


ExpressionText = Annotated[str, Field(max_length=500), AfterValidator(_readable)]
Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Hypothesis(_Strict):
    """One piece of knowledge: where `when` holds, the values in `attempt` should move the metrics in `expect`."""

    id: Id
    when: ExpressionText
    attempt: dict[str, Annotated[Value, AfterValidator(_readable)]] = Field(alias="try", min_length=1)
    "Knob -> value. A string is an expression; a word as a value stands in quotes inside it: \"'bf16'\"."
    expect: dict[Annotated[str, AfterValidator(_metric)], Literal["lower", "higher"]] = Field(min_length=1)
    why: str = Field(min_length=1, max_length=400)

    @property
    def names(self) -> frozenset[str]:
        """Every name that its expressions use."""
        sources = [self.when, *(value for value in self.attempt.values() if isinstance(value, str))]
        return frozenset().union(*(Expression(source).names for source in sources))

    def knob_names(self) -> frozenset[str]:
        """The knobs that it sets or looks at."""
        looked_at = {name.partition(".")[2] for name in self.names if name.partition(".")[0] in _KNOB_GROUPS}
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
    allowed_actions: tuple[ActionKind, ...] = Field(min_length=1)
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

    def check_knobs(self, config: Mapping[str, Value]) -> None:
        """Whether every knob named here is one of the target's, whose full config is `config`.

        Raises:
            UserError: an unknown knob; the message names the hypothesis and suggests the nearest name.
        """
        places = {f"hypothesis {h.id}": h.knob_names() for h in self.hypotheses}
        for name, source in self.define.items():
            used = (used.partition(".") for used in Expression(source).names)
            places[f"define.{name}"] = frozenset(knob for group, _, knob in used if group in _KNOB_GROUPS)
        for place, knobs in places.items():
            for knob in sorted(knobs - config.keys()):
                raise UserError(f"playbook {self.name}, {place}: unknown knob {knob!r}{_hint(knob, config)}")


def _check_names(place: str, names: frozenset[str], defined: set[str]) -> None:
    for name in sorted(names):
        group, _, fact = name.partition(".")
        if not fact:
            if name not in defined:
                known = [*defined, *(f"{group}.…" for group in sorted(_KNOB_GROUPS | _CLOSED_GROUPS.keys()))]
                raise ValueError(f"{place}: unknown name {name!r}; known: {', '.join(known)}")
        elif group not in _KNOB_GROUPS and fact not in _CLOSED_GROUPS.get(group, ()):
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
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{place}: not YAML: {error}") from None
    try:
        return Playbook.model_validate(data)
    except ValidationError as error:
        problems = [f"  {_where(problem['loc'], data)}: {_what(problem)}" for problem in error.errors()]
        raise UserError("\n".join([f"{place}: not a valid playbook", *problems])) from None


def _read(source: str | Path) -> tuple[str, str]:
    if isinstance(source, Path) or source.endswith((".yaml", ".yml")):
        try:
            return Path(source).read_text(encoding="utf-8"), str(source)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{source}: expected a playbook file, found none that can be read: {error}") from None
    shipped = {Path(entry.name).stem: entry for entry in resources.files("playbooks").iterdir()}
    shipped = {name: entry for name, entry in shipped.items() if entry.name.endswith(".yaml")}
    if source not in shipped:
        raise UserError(
            f"playbook {source!r}: expected one of {', '.join(sorted(shipped))}, or the path of a .yaml file"
        )
    return shipped[source].read_text(encoding="utf-8"), f"playbook {source}"


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


_KEYS = {field.alias or name for model in (Playbook, Hypothesis, Stop) for name, field in model.model_fields.items()}
