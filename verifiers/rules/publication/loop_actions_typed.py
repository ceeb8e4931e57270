"""Is every decision of the run a typed action, and was each one that led to a launch made of known knobs and values?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.measure.summary import METRICS
from tools.targets.knobs import KnobError
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "loop.actions_typed"

_TEXT_CHARS = 400
_MOST_ANSWERS = 5
"""Of one turn: an answer, two repairs, two more after an `inspect`."""


def verify(evidence: Evidence) -> Verdict:
    """Kinds, fields and their types as the actions' own schema has them; malformed answers were sent back at most
    twice, and what they cost was counted."""
    actions = evidence.of_kind("action")
    if not actions:
        return error(RULE, "no action is recorded")
    passing = {str(e.key).partition(":")[2] for e in evidence.of_kind("preflight") if e.data["status"] == "PASS"}
    for entry in actions:
        action = entry.data.get("action")
        if wrong := _shape(action):
            return failed(RULE, f"{entry.key}: {wrong}")
        assert isinstance(action, Mapping)
        if str(entry.key).partition(":")[2] in passing and action["kind"] == "propose":
            try:
                for name, value in action["patch"].items():
                    evidence.space[name].check(value)
            except KnobError as refusal:
                return failed(RULE, f"{entry.key} was launched: {refusal}")
        answers = sum(message.get("role") == "assistant" for message in entry.data.get("transcript", ()))
        if answers > _MOST_ANSWERS:
            return failed(RULE, f"{entry.key}: took {answers} answers; a malformed one may be sent back twice")
        if answers > (entry.data.get("usage") or {}).get("calls", 0):
            return failed(RULE, f"{entry.key}: {answers} answers were given, and not all of them were counted")
    return passed(RULE, f"all {len(actions)} decisions are typed actions")


def _shape(action: object) -> str:
    if not isinstance(action, Mapping) or action.get("kind") not in _FIELDS:
        return f"expected one of the actions {', '.join(_FIELDS)}, found {str(action)[:80]!r}"
    fields = _FIELDS[action["kind"]]
    if unknown := sorted(set(action) - set(fields) - {"kind"}):
        return f"{action['kind']} has no field {unknown[0]!r}"
    for name, fits in fields.items():
        if (name in action and not fits(action[name])) or (name not in action and name not in _LATER):
            return f"{action['kind']}: {name} is {str(action.get(name))[:80]!r}"
    return ""


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_CHARS


def _patch(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and 0 < len(value) <= 64
        and all(type(v) in (bool, int, float, str) for v in value.values())
    )


def _few(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 8


def _expect(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= 16
        and all(name in METRICS and direction in ("lower", "higher") for name, direction in value.items())
    )


def _regions(value: Any) -> bool:
    return isinstance(value, list | tuple) and 1 <= len(value) <= 4 and all(_region(each) for each in value)


def _region(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() <= {"knob", "low", "high", "values", "weight", "why"}
        and _text(value.get("knob"))
        and type(value.get("weight")) in (int, float)
        and 0 <= value["weight"] <= 1
    )


_FIELDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "propose": {"patch": _patch, "hypothesis": _text, "expect": _expect},
    "search": {"trials": _few, "why": _text},
    "measure": {"trial": _text},
    "weigh": {"regions": _regions},
    "inspect": {"trial": _text, "subject": _text},
    "profile": {"subject": _text},
    "finish": {"reason": _text},
}

_LATER = frozenset({"expect", "subject"})
"""Fields that records of earlier versions lack."""
