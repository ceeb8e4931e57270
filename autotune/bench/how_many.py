"""HowMany: how many trials were asked for, a number or what resolves an effect."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.duration import parse_seconds
from tools.errors import UserError

__all__ = ["HowMany"]


@dataclass(frozen=True, slots=True)
class HowMany:
    """A number of trials, or the effect that they are to resolve within a budget."""

    trials: int
    effect: float | None = None
    "Relative: 0.05 is 5 %."
    budget_s: float | None = None

    @classmethod
    def asked(cls, trials: int | None, resolve: str | None, budget: str | None) -> HowMany:
        """As the options say.

        Raises:
            UserError: options that contradict each other, or make no sense.
        """
        if resolve is None:
            if budget is not None:
                raise UserError(
                    "--budget goes with --resolve, found no --resolve; give the number of trials with --trials"
                )
            return cls(trials or 1)
        if trials is not None:
            raise UserError(
                "expected one of --trials and --resolve, found both; --resolve chooses the number of trials"
            )
        return cls(1, _share(resolve), None if budget is None else parse_seconds("--budget", budget))


def _share(text: str) -> float:
    """`5%` or `0.05`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UserError(f"--resolve: expected a share such as 5% or 0.05, found {text!r}")
    return value
