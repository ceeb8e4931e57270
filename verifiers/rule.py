"""Rule: one question of the gate, and the stages at which it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict

__all__ = ["Rule", "Stage", "asked"]

Stage = Literal["preflight", "trial", "confirm", "publish"]
"""preflight: before a launch. trial: of one trial. confirm: of a whole confirmation. publish: of what would be
committed, and of the run that led to it."""


class _Module(Protocol):
    __name__: str
    __doc__: str | None
    RULE: str

    def verify(self, evidence: Evidence, /) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One question."""

    id: str
    stages: frozenset[Stage]
    verify: Callable[[Evidence], Verdict]
    question: str
    "As its module's first line puts it."

    @property
    def family(self) -> str:
        """What comes before the dot of its id; a playbook may require verifiers by these names."""
        return self.id.partition(".")[0]


def asked(module: _Module, *stages: Stage) -> Rule:
    """The rule that `module` holds (`RULE` and `verify`), asked at `stages`."""
    return Rule(module.RULE, frozenset(stages), module.verify, (module.__doc__ or "").partition("\n")[0])
