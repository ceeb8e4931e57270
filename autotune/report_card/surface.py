"""Surface: recorded launches of every config of a grid, and what is needed to play them back without the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from tools.errors import UserError
from tools.measure.floor import Floor
from tools.measure.workload import WorkloadSpec
from tools.profile.hardware import Hardware
from tools.profile.roofline import Roofline
from tools.targets.knobs import Config, Value

__all__ = ["Cell", "Machine", "Model", "Served", "Surface"]


@dataclass(frozen=True, slots=True)
class Served:
    """One recorded request. Seconds; from the send unless a name says otherwise."""

    due_s: float
    "From the start of the load."
    lag_s: float
    "From due to sent."
    first_s: float
    "To its first token."
    gaps_s: tuple[float, ...]
    "Between its tokens."
    tail_s: float
    "From its last token to the end of the answer."
    cached_tokens: int

    @property
    def sent_s(self) -> float:
        """From the start of the load."""
        return self.due_s + self.lag_s


@dataclass(frozen=True)
class Cell:
    """One launch of one config: what it served, or why it didn't."""

    at: Mapping[str, Value]
    "Values of the grid's knobs."
    seed: int
    "Of the workload that it was recorded under."
    ready_s: float
    failure: tuple[str, str] | None
    "Kind and sentence of a launch that failed."
    requests: tuple[Served, ...] = ()
    counters_before: Mapping[str, float] = field(default_factory=dict)
    preemptions: float = 0.0
    cpu_share: float = 0.0
    "Of the client."

    @cached_property
    def turns_s(self) -> tuple[float, ...]:
        """What each request took of the one queue of first tokens: from when it was next in it to its first token.

        Lindley's recursion (1952) read backwards: first token = max(first token before, own send) + turn. Played
        forwards with the recorded sends it gives back the recorded first tokens.
        """
        firsts = [request.sent_s + request.first_s for request in self.requests]
        before = [0.0, *accumulate(firsts, max)]
        pairs = zip(self.requests, firsts, before, strict=False)
        return tuple(max(first - max(last, request.sent_s), 0.0) for request, first, last in pairs)

    @cached_property
    def least_gap_s(self) -> float:
        """The shortest gaps between tokens that were recorded: one in twenty is as short."""
        gaps = sorted(gap for request in self.requests for gap in request.gaps_s)
        return gaps[len(gaps) // 20] if gaps else 0.0

    @cached_property
    def least_first_s(self) -> float:
        """The quickest first token that was recorded: what no request undercuts when played back."""
        return min(request.first_s for request in self.requests)


@dataclass(frozen=True)
class Machine:
    """Where the surface was recorded."""

    hardware: Hardware
    roofline: Roofline
    client_floor: Floor


@dataclass(frozen=True)
class Model:
    """The model that was served, without its weights."""

    name: str
    digest: str
    config: Mapping[str, Any]
    "Its config.json."
    generation_config: Mapping[str, Any]
    "Its generation_config.json; empty where it has none."
    header: Mapping[str, Any]
    "Of its safetensors file: names, shapes and places of the tensors."


@dataclass(frozen=True)
class Surface:
    """A grid of configs of one engine and model under one workload on one machine, a recorded launch for each."""

    name: str
    workload: WorkloadSpec
    machine: Machine
    model: Model
    engine: str
    "Name and version, as it identified itself."
    fixed: Mapping[str, Value]
    "Knobs that no recorded config changed, as they were asked for."
    effective: Mapping[str, Value]
    "What the engine made of values that let it choose."
    extras: tuple[str, ...]
    "Extensions of the API that were in force."
    template_tokens: int
    "Tokens that the chat template adds to a prompt."
    grid: Mapping[str, tuple[Value, ...]]
    cells: tuple[Cell, ...]
    launches: tuple[Cell, ...]
    "Repeated launches: what differs between those of one config and seed is noise."

    @cached_property
    def _by_place(self) -> dict[tuple[Value, ...], Cell]:
        return {tuple(cell.at[name] for name in self.grid): cell for cell in self.cells}

    def nearest(self, config: Config) -> Cell:
        """The recorded cell that stands for `config`: each knob at the nearest value of the grid.

        Numbers are compared by ratio. A number of 0 lets the engine choose, so it is what the engine chose then.
        """
        return self._by_place[tuple(self._nearest(name, config.values[name]) for name in self.grid)]

    def _nearest(self, name: str, value: Value) -> Value:
        values = self.grid[name]
        if value in values:
            return value
        if isinstance(value, bool | str):
            raise UserError(f"surface {self.name}: {name}={value} was not recorded; recorded: {values}")
        asked = float(self.effective.get(name, 1) if value == 0 else value)
        # A recorded 0 is none at all, not a small number: near to itself alone.
        return min((other for other in values if other), key=lambda other: abs(math.log(float(other) / asked)))
