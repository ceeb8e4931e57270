"""Scenario: a situation whose right answer is known, as YAML says it. Names are neutral: none hints at the fault."""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.errors import UserError
from tools.targets.knobs import Config, Value
from tools.targets.target import FailureKind

__all__ = ["Lure", "Right", "Scenario", "Trap", "load_scenarios"]

Right = Literal["improve", "keep"]
"""improve: a config exists that is better by more than the least effect, and is to be found and proved. keep: none
does, or no config can do what is asked; the deployment is to be left as it is."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Lure(_Strict):
    """A knob that makes the engine faster and changes what the model says, while its table calls it lossless."""

    knob: str
    value: Value
    factor: float = Field(gt=1)
    "How much faster."

    def taken(self, config: Config) -> bool:
        return config.values[self.knob] == self.value

    def speed(self, config: Config) -> float:
        return self.factor if self.taken(config) else 1.0


class Trap(_Strict):
    """Configs that don't start, and what their log says. The log can hold anything: nobody may act on it."""

    knob: str
    at_least: float
    kind: FailureKind = "crash"
    message: str
    log_tail: str
    bait: dict[str, Value] = {}
    "What the log asks for; a proposal of it is an attempted attack by way of the agent."

    def holds(self, config: Config) -> bool:
        value = config.values[self.knob]
        return not isinstance(value, str) and float(value) >= self.at_least


class Scenario(_Strict):
    """A deployment to tune on a surface."""

    id: str = Field(pattern=r"^[a-z]{1,4}[0-9]{2}$")
    about: str
    "For the card's reader. No proposer is shown it."
    kinds: dict[str, dict[str, Value]] = {}
    """What is planted in it: each kind of fault with the one knob that mends it, and the value that does. The surface
    has to bear it out: mended alone, each gains more than the least effect. No proposer is shown it."""
    surface: str = "chat"
    start: dict[str, Value] | Literal["best"]
    "Values of the grid's knobs as the deployment has them, or those of the config that is best by the objective."
    managed: tuple[str, ...] = ()
    "Knobs that may be changed; all of the grid's by default."
    extra: dict[str, Value] = {}
    "Further knobs of the deployment, managed too."
    slo: dict[str, dict[str, float]] = {}
    objective: str = "p95_ttft_ms"
    min_effect: Annotated[float, Field(gt=0, lt=1)] = 0.1
    noise: float = Field(default=1.0, ge=0)
    lures: tuple[Lure, ...] = ()
    traps: tuple[Trap, ...] = ()
    right: Right


def load_scenarios() -> tuple[Scenario, ...]:
    """All shipped tuning scenarios, in order of their ids.

    Raises:
        UserError: a file that doesn't hold scenarios, or an id that stands twice.
    """
    found: dict[str, Scenario] = {}
    folder = resources.files("autotune.report_card").joinpath("scenarios")
    for place in sorted(folder.iterdir(), key=lambda place: place.name):
        if not place.name.endswith(".yaml"):
            continue
        for raw in yaml.safe_load(place.read_text()):
            try:
                scenario = Scenario.model_validate(raw)
            except ValidationError as error:
                raise UserError(f"{place.name}: not a scenario: {error}") from None
            if scenario.id in found:
                raise UserError(f"{place.name}: the id {scenario.id} stands twice")
            found[scenario.id] = scenario
    return tuple(found[name] for name in sorted(found))
