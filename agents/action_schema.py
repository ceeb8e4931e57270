"""The JSON schema of one action, for endpoints that shape what a model says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

from agents.actions import ACTION_KINDS, ActionKind, InspectSubject
from agents.view import ProfileSubject
from tools.targets.knobs import Knob, KnobSpace

__all__ = ["action_schema"]

_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TEXT = {"type": "string"}


def action_schema(
    allowed: Collection[ActionKind],
    space: KnobSpace,
    trial_ids: Collection[str] = (),
    metrics: Collection[str] = (),
) -> dict[str, Any]:
    """The schema of one action, closed: knobs, ranges, trials and metrics are listed, and nothing else validates.

    It keeps to the subset that OpenAI's strict structured output takes: the root is an object, every property is
    required, null stands for "leave this one alone". `measure` and `inspect` need a trial to name.

    Args:
        metrics: what a proposal may state an expectation for.
    """
    knobs = [knob for knob in space if knob.tunable]
    trial = {"type": "string", "enum": sorted(trial_ids)}
    fields: dict[ActionKind, dict[str, Any]] = {
        "propose": {
            "hypothesis": _TEXT,
            "patch": _object({knob.name: _value(knob) for knob in knobs}),
            "expect": _object({name: _enum("lower", "higher", None) for name in metrics}),
        },
        "search": {"trials": {"type": "integer", "minimum": 1, "maximum": 8}, "why": _TEXT},
        "measure": {"trial": trial},
        "weigh": {"regions": {"type": "array", "items": _region(knobs), "minItems": 1, "maxItems": 4}},
        "inspect": {"trial": trial, "subject": _enum(*get_args(InspectSubject))},
        "profile": {"subject": _enum(*get_args(ProfileSubject))},
        "finish": {"reason": _TEXT},
    }
    if not trial_ids:
        del fields["measure"], fields["inspect"]
    variants = [
        _object({"kind": _enum(kind), **fields[kind]}) for kind in ACTION_KINDS if kind in allowed and kind in fields
    ]
    return _object({"action": {"anyOf": variants}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _enum(*values: str | None) -> dict[str, Any]:
    return {"type": ["string", "null"] if None in values else "string", "enum": list(values)}


def _region(knobs: Collection[Knob]) -> dict[str, Any]:
    """One shape for all knobs, so that the schema stays small; whether it fits its knob is checked afterwards."""
    bound = {"type": ["number", "null"]}
    values = {"type": ["array", "null"], "items": {"type": ["string", "number", "boolean"]}, "maxItems": 16}
    weight = {"type": "number", "minimum": 0, "maximum": 1}
    names = _enum(*(knob.name for knob in knobs))
    return _object({"knob": names, "low": bound, "high": bound, "values": values, "weight": weight, "why": _TEXT})


def _value(knob: Knob) -> dict[str, Any]:
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
