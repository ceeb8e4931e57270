"""Actions: all that a proposer may say. Each is typed, and declares what it does and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from agents.view import View
from tools.errors import UserError
from tools.targets.knobs import Knob, KnobSpace, Value

__all__ = [
    "ACTION_KINDS",
    "Action",
    "ActionError",
    "ActionKind",
    "Effect",
    "Finish",
    "Inspect",
    "Measure",
    "Propose",
    "Search",
    "action_schema",
    "check_action",
    "parse_action",
]

Effect = Literal["read", "measure"]
ActionKind = Literal["propose", "search", "measure", "inspect", "finish"]


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
    """Try one config: `patch` against the baseline, and why it should help."""

    effect: ClassVar[Effect] = "measure"
    kind: Literal["propose"] = "propose"
    patch: dict[str, Value] = Field(min_length=1, max_length=64)
    hypothesis: str = Field(max_length=400)

    @field_validator("patch", mode="before")
    @classmethod
    def _without_nulls(cls, patch: object) -> object:
        # A strict schema makes a model name every knob; null is how it leaves one alone.
        return {k: v for k, v in patch.items() if v is not None} if isinstance(patch, dict) else patch

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


class Inspect(_Action):
    """Read an earlier trial in full."""

    kind: Literal["inspect"] = "inspect"
    trial: str = Field(min_length=1, max_length=64)


class Finish(_Action):
    """Stop exploring. The harness then confirms the incumbent, or keeps the baseline."""

    kind: Literal["finish"] = "finish"
    reason: str = Field(max_length=400)


Action = Annotated[Propose | Search | Measure | Inspect | Finish, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}

ACTION_KINDS: tuple[ActionKind, ...] = ("propose", "search", "measure", "inspect", "finish")


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


def _check_patch(patch: Mapping[str, Value], view: View) -> None:
    for name, value in patch.items():
        if name in view.baseline.values and name not in view.space.knobs:
            raise ActionError(f"knob {name!r} is fixed here; may be changed: {', '.join(sorted(view.space.knobs))}")
        try:
            view.space[name].check(value)
        except UserError as error:
            raise ActionError(str(error)) from None
    if not view.changes(patch):
        raise ActionError("the patch says only what the baseline says; change at least one value")
    if (earlier := view.tried_as(patch)) is not None:
        raise ActionError(f"this config has been tried as {earlier}; propose another")


def action_schema(allowed: Collection[ActionKind], space: KnobSpace, trial_ids: Collection[str] = ()) -> dict[str, Any]:
    """The JSON schema of one action, closed: knob names, ranges and trials are listed, and nothing else validates.

    It keeps to the subset that OpenAI's strict structured output takes: the root is an object, every property is
    required, null stands for "leave this knob alone". `measure` and `inspect` need a trial to name.
    """
    trial = {"type": "string", "enum": sorted(trial_ids)}
    text = {"type": "string"}
    patch = _object({knob.name: _value_schema(knob) for knob in space if knob.tunable})
    fields: dict[ActionKind, dict[str, Any]] = {
        "propose": {"hypothesis": text, "patch": patch},
        "search": {"trials": {"type": "integer", "minimum": 1, "maximum": 8}, "why": text},
        "measure": {"trial": trial},
        "inspect": {"trial": trial},
        "finish": {"reason": text},
    }
    if not trial_ids:
        del fields["measure"], fields["inspect"]
    variants = [
        _object({"kind": {"type": "string", "enum": [kind]}, **fields[kind]})
        for kind in ACTION_KINDS
        if kind in allowed and kind in fields
    ]
    return _object({"action": {"anyOf": variants}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _value_schema(knob: Knob) -> dict[str, Any]:
    if knob.kind == "bool":
        return {"type": ["boolean", "null"], "description": knob.meaning}
    if knob.kind == "choice":
        kinds = sorted({_JSON_TYPES[type(choice)] for choice in knob.choices})
        return {"type": [*kinds, "null"], "enum": [*knob.choices, None], "description": knob.meaning}
    schema: dict[str, Any] = {"type": ["integer" if knob.kind == "int" else "number", "null"]}
    low, high = (int(b) if b is not None and knob.kind == "int" else b for b in (knob.low, knob.high))
    bounds = {"minimum": low, "maximum": high}
    return {
        **schema,
        **{name: bound for name, bound in bounds.items() if bound is not None},
        "description": knob.meaning,
    }
