"""Outcome: what the gate made of each attack and each honest run, and what that says about the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifiers.catalogue import RULES
from verifiers.gauntlet.case import Exam
from verifiers.gauntlet.classes import CLASSES, WAITING

__all__ = ["Attacked", "Controlled", "Outcome"]

_ASKS_FOR_DATA = frozenset({"data.complete"})
"Rules whose very question is whether everything is there; their answer is an ERROR."


@dataclass(frozen=True, slots=True)
class Attacked:
    """One attack and its exam."""

    id: str
    attack: str
    rule: str
    lie: str
    way: str
    "record: written as a liar would leave it. http: told by a server that lies."
    exam: Exam

    @property
    def caught(self) -> bool:
        """Whether its own rule refused it. That it couldn't be asked is no answer, but where just that is asked."""
        own = self.exam.refusals.get(self.rule)
        return own is not None and (own.verdict.status != "ERROR" or self.rule in _ASKS_FOR_DATA)

    @property
    def alone(self) -> bool:
        """Whether no other rule did: without its own it would be accepted."""
        return self.exam.refused_by == {self.rule}

    def to_json(self) -> dict[str, Any]:
        own = self.exam.refusals.get(self.rule)
        return {
            "id": self.id,
            "attack": self.attack,
            "rule": self.rule,
            "lie": self.lie,
            "way": self.way,
            "caught": self.caught,
            "stage": own.stage if own else None,
            "status": own.verdict.status if own else None,
            "sentence": own.verdict.sentence if own else None,
            "refused_by": sorted(self.exam.refused_by),
        }


@dataclass(frozen=True, slots=True)
class Controlled:
    """One honest run and its exam."""

    id: str
    what: str
    way: str
    allowed: frozenset[str]
    must: frozenset[str]
    exam: Exam

    @property
    def wrongly(self) -> tuple[str, ...]:
        """Rules that refused it for no good reason."""
        return tuple(sorted(self.exam.refused_by - self.allowed))

    @property
    def accepted_wrongly(self) -> bool:
        """Whether it passed although there is no gain in it."""
        return bool(self.must) and not self.exam.refused_by & self.must

    def to_json(self) -> dict[str, Any]:
        said = {rule: refusal.verdict.sentence for rule, refusal in self.exam.refusals.items()}
        return {
            "id": self.id,
            "what": self.what,
            "way": self.way,
            "refused_by": said,
            "wrongly": list(self.wrongly),
            "accepted_wrongly": self.accepted_wrongly,
        }


@dataclass(frozen=True)
class Outcome:
    """The whole gauntlet."""

    attacks: tuple[Attacked, ...]
    controls: tuple[Controlled, ...]
    complete: bool = True
    "Whether every record was judged: only then does a rule without a kill, or a class without a case, say anything."

    @property
    def missed(self) -> tuple[Attacked, ...]:
        """Attacks that their own rule let pass."""
        return tuple(one for one in self.attacks if not one.caught)

    @property
    def refused_wrongly(self) -> tuple[Controlled, ...]:
        return tuple(one for one in self.controls if one.wrongly or one.accepted_wrongly)

    @property
    def killers(self) -> Mapping[str, tuple[str, ...]]:
        """Of each rule the attacks that it alone refuses: leave the rule out, and they are accepted."""
        alone: dict[str, list[str]] = {rule.id: [] for rule in RULES}
        for one in self.attacks:
            if one.alone:
                alone[one.rule].append(one.id)
        return {rule: tuple(ids) for rule, ids in alone.items()}

    @property
    def idle(self) -> tuple[str, ...]:
        """Rules that could be left out, and nothing more would be accepted."""
        return tuple(rule for rule, ids in self.killers.items() if not ids) if self.complete else ()

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Classes without an attack that its own rule refuses."""
        covered = {one.attack for one in self.attacks if one.caught}
        return tuple(name for name in CLASSES if name not in covered | WAITING.keys()) if self.complete else ()

    @property
    def holds(self) -> bool:
        return not (self.missed or self.refused_wrongly or self.idle or self.uncovered)

    def to_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "attacks": [one.to_json() for one in self.attacks],
            "controls": [one.to_json() for one in self.controls],
            "missed": [one.id for one in self.missed],
            "refused_wrongly": [one.id for one in self.refused_wrongly],
            "kills": {rule: list(ids) for rule, ids in self.killers.items()},
            "idle_rules": list(self.idle),
            "classes_without_a_case": list(self.uncovered),
            "classes_that_wait": dict(WAITING),
        }
