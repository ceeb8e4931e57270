"""Recall: a rule isn't asked again where nothing that it read has changed. Rules are pure, so the answer is known.

Most attacks change one thing of a run that was judged before, and most rules never look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from verifiers.evidence import Evidence
from verifiers.rule import Rule
from verifiers.verdict import Verdict

__all__ = ["Recall"]

_FIELDS = frozenset(field.name for field in fields(Evidence))


class _Watched(Evidence):
    """Evidence that notes which of its fields are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            object.__getattribute__(self, "_read").add(name)
        return object.__getattribute__(self, name)


def _watched(evidence: Evidence, read: set[str]) -> Evidence:
    watched = object.__new__(_Watched)
    watched.__dict__.update(evidence.__dict__)
    watched.__dict__["_read"] = read
    return watched


@dataclass(frozen=True, slots=True)
class _Known:
    read: tuple[tuple[str, Any], ...]
    "Fields that the rule read, with the very objects that it found there: while they are kept, no other is them."
    verdict: Verdict

    def still_holds(self, evidence: Evidence) -> bool:
        return all(_same(value, getattr(evidence, name)) for name, value in self.read)


@dataclass
class Recall:
    """What each rule said, and what of."""

    known: dict[str, list[_Known]] = field(default_factory=dict)

    def ask(self, rule: Rule, evidence: Evidence) -> Verdict:
        """The verdict of `rule`, asked only if it read something else before."""
        known = self.known.setdefault(rule.id, [])
        for one in reversed(known):
            if one.still_holds(evidence):
                return one.verdict
        read: set[str] = set()
        verdict = rule.verify(_watched(evidence, read))
        known.append(_Known(tuple((name, getattr(evidence, name)) for name in sorted(read)), verdict))
        return verdict


def _same(known: Any, found: Any) -> bool:
    """The very same object; of tuples, the very same members. Plain words and numbers by their value."""
    if known is found:
        return True
    if isinstance(known, tuple) and isinstance(found, tuple):
        return len(known) == len(found) and all(a is b for a, b in zip(known, found, strict=True))
    return isinstance(known, str | int | None) and type(known) is type(found) and bool(known == found)
