"""Actions: all that a proposer may say. Each is typed, and declares what it does and what it costs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from agents.view import ProfileSubject, View
from tools.errors import UserError
from tools.measure.summary import METRICS
from tools.targets.knobs import Knob, Value

__all__ = [
    "ACTION_KINDS",
    "Action",
    "ActionError",
    "ActionKind",
    "Direction",
    "Effect",
    "Finish",
    "Inspect",
    "InspectSubject",
    "Measure",
    "Profile",
    "Propose",
    "Search",
    "Weigh",
    "WeighedRegion",
    "check_action",
    "parse_action",
]

Effect = Literal["read", "measure"]
ActionKind = Literal["propose", "search", "measure", "weigh", "inspect", "profile", "finish"]
Direction = Literal["lower", "higher"]
InspectSubject = Literal["trial", "log", "metrics"]


class ActionError(ValueError):
    """What was said is no action, or not one that is allowed here. The message tells how to mend it."""


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    effect: ClassVar[Effect] = "read"

    @property
    def cost(self) -> int:
        """Trials that this spends at most."""
        return 0


class Propose(_Action):
    """Try one config: `patch` against the baseline, why it should help, and which metrics should move which way."""

    effect: ClassVar[Effect] = "measure"
    kind: Literal["propose"] = "propose"
    patch: dict[str, Value] = Field(min_length=1, max_length=64)
    hypothesis: str = Field(max_length=400)
    expect: dict[str, Direction] = Field(default={}, max_length=16)
    "Metric -> the way it should move. The harness judges it by what is measured."

    @field_validator("patch", "expect", mode="before")
    @classmethod
    def _without_nulls(cls, named: object) -> object:
        # A strict schema makes a model name every knob and metric; null is how it leaves one alone.
        return {k: v for k, v in named.items() if v is not None} if isinstance(named, dict) else named

    @field_validator("expect")
    @classmethod
    def _of_metrics(cls, expect: dict[str, Direction]) -> dict[str, Direction]:
        if unknown := sorted(expect.keys() - set(METRICS)):
            near = difflib.get_close_matches(unknown[0], METRICS, n=1)
            raise ValueError(f"unknown metric {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return expect

    @property
    def cost(self) -> int:
        return 1


class Search(_Action):
    """Let the numeric search choose the next `trials` configs."""

    effect: ClassVar[Effect] = "measure"
    kind: Literal["search"] = "search"
    trials: int = Field(ge=1, le=8)
    why: str = Field(default="", max_length=400)

    @property
    def cost(self) -> int:
        return self.trials


class Measure(_Action):
    """Measure the config of an earlier trial again, to learn the noise."""

    effect: ClassVar[Effect] = "measure"
    kind: Literal["measure"] = "measure"
    trial: str = Field(min_length=1, max_length=64)

    @property
    def cost(self) -> int:
        return 1


class WeighedRegion(BaseModel):
    """A belief: the best value of `knob` lies between `low` and `high`, or among `values`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    knob: str = Field(min_length=1, max_length=64)
    low: float | None = None
    high: float | None = None
    values: tuple[Value, ...] = Field(default=(), max_length=16)
    weight: float = Field(ge=0, le=1)
    "How sure: 0 not at all, 1 as sure as can be."
    why: str = Field(default="", max_length=200)

    @field_validator("values", mode="before")
    @classmethod
    def _none_is_none(cls, values: object) -> object:
        return () if values is None else values

    @model_validator(mode="after")
    def _says_something(self) -> WeighedRegion:
        if bool(self.values) == (self.low is not None or self.high is not None):
            raise ValueError(f"region of {self.knob}: expected either low and high, or values")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"region of {self.knob}: expected low <= high, found {self.low:g} > {self.high:g}")
        return self


class Weigh(_Action):
    """Tell the search where the best lies, as far as one believes. It shifts the search, and masks nothing."""

    kind: Literal["weigh"] = "weigh"
    regions: tuple[WeighedRegion, ...] = Field(min_length=1, max_length=4)


class Inspect(_Action):
    """Read more of an earlier trial: its config and outcome, the end of its log, or all its metrics."""

    kind: Literal["inspect"] = "inspect"
    trial: str = Field(min_length=1, max_length=64)
    subject: InspectSubject = "metrics"


class Profile(_Action):
    """Read what the run has recorded of the machine, its limits, the baseline alone, or where the time goes."""

    kind: Literal["profile"] = "profile"
    subject: ProfileSubject


class Finish(_Action):
    """Stop exploring. The harness then confirms the incumbent, or keeps the baseline."""

    kind: Literal["finish"] = "finish"
    reason: str = Field(max_length=400)


Action = Annotated[Propose | Search | Measure | Weigh | Inspect | Profile | Finish, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)

ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)


def parse_action(data: object) -> Action:
    """The action that `data` stands for: `{"action": {"kind": ...}}`, or the inner object alone.

    Raises:
        ActionError: an unknown kind or key, a missing or over-long field, a wrong type.
    """
    inner = data["action"] if isinstance(data, Mapping) and data.keys() == {"action"} else data
    try:
        return _ADAPTER.validate_python(inner)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, problem['loc'])) or 'action'}: {problem['msg']}" for problem in error.errors()]
        raise ActionError("not a valid action: " + "; ".join(problems[:5])) from None


def check_action(action: Action, view: View, allowed: Collection[ActionKind]) -> None:
    """Whether `action` makes sense here.

    Raises:
        ActionError: a kind that isn't allowed, more trials than are left, an unknown or fixed knob, a value that its
            knob can't take, a config that was tried before, a trial that doesn't exist.
    """
    if action.kind not in allowed:
        raise ActionError(f"action {action.kind!r} is not allowed here; allowed: {', '.join(sorted(allowed))}")
    if action.cost > view.trials_left:
        raise ActionError(f"{action.kind} costs {action.cost} trials, and {view.trials_left} are left")
    if isinstance(action, Measure | Inspect) and view.trial(action.trial) is None:
        raise ActionError(f"there is no trial {action.trial!r}; trials: {', '.join(t.id for t in view.trials)}")
    if isinstance(action, Propose):
        _check_patch(action.patch, view)
    if isinstance(action, Weigh):
        for region in action.regions:
            _check_region(region, view)


def _check_patch(patch: Mapping[str, Value], view: View) -> None:
    for name, value in patch.items():
        _check_value(name, value, view)
    if not view.changes(patch):
        raise ActionError("the patch says only what the baseline says; change at least one value")
    if (earlier := view.tried_as(patch)) is not None:
        raise ActionError(f"this config has been tried as {earlier}; propose another")


def _check_region(region: WeighedRegion, view: View) -> None:
    knob = _knob(region.knob, view)
    if not region.values and knob.kind in ("bool", "choice"):
        raise ActionError(f"knob {knob.name!r} is no number; give `values` in place of low and high")
    for value in region.values:
        _check_value(region.knob, value, view)


def _check_value(name: str, value: Value, view: View) -> None:
    try:
        _knob(name, view).check(value)
    except UserError as error:
        raise ActionError(str(error)) from None


def _knob(name: str, view: View) -> Knob:
    if name in view.baseline.values and name not in view.space.knobs:
        raise ActionError(f"knob {name!r} is fixed here; may be changed: {', '.join(sorted(view.space.knobs))}")
    try:
        return view.space[name]
    except UserError as error:
        raise ActionError(str(error)) from None
