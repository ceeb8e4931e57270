"""Reference: every config of a surface, played without noise. What right answers are worked out from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean, geometric_mean

from autotune.report_card.noise import CALM
from autotune.report_card.playback import Process, play
from autotune.report_card.replay import ReplayTarget
from autotune.report_card.scenario import Trap
from autotune.report_card.surface import Cell, Surface
from autotune.report_card.surface_file import load_surface
from tools.measure.summary import lower_is_better, summarise
from tools.measure.workload import Workload, materialise
from tools.service.load_spec import at_load
from tools.targets.knobs import Config

__all__ = ["Reference", "reference_of"]

_LOADS = ((101, 1.0), (102, 0.8), (103, 1.2), (104, 1.0), (105, 0.8), (106, 1.2))
"""Seed and load factor of the workloads that a config is judged under: no run's own seeds, and the load factors of a
confirmation, where a gain has to hold too."""


class Reference:
    """Mean metrics of every recorded config over the judging workloads, geometric means where none is 0."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self.target = ReplayTarget(surface.model)
        loads = [materialise(at_load(surface.workload, factor), seed) for seed, factor in _LOADS]
        self._of = {id(cell): self._summary(cell, loads) for cell in surface.cells if cell.failure is None}

    def summary(self, config: Config) -> Mapping[str, float] | None:
        """The metrics of `config`; None where it was recorded to fail."""
        return self._of.get(id(self.surface.nearest(config)))

    def config(self, cell: Cell) -> Config:
        """The whole config that `cell` was recorded with."""
        return self.target.knobs.resolve({**self.surface.fixed, **cell.at})

    def best(self, metric: str, traps: Sequence[Trap] = ()) -> Cell:
        """The cell with the best `metric` of those that start."""
        sign = 1 if lower_is_better(metric) else -1
        starting = [
            cell
            for cell in self.surface.cells
            if id(cell) in self._of and not any(trap.holds(self.config(cell)) for trap in traps)
        ]
        return min(starting, key=lambda cell: sign * self._of[id(cell)][metric])

    def _summary(self, cell: Cell, loads: Sequence[Workload]) -> dict[str, float]:
        config, process = self.config(cell), Process(1, 0.0, cell.ready_s)
        found = [summarise(play(self.surface, cell, load, config, self.target.knobs, process, CALM)) for load in loads]
        whole = [name for name in found[0] if all(name in each for each in found)]
        return {name: _mean([each[name] for each in found]) for name in whole}


def _mean(values: Sequence[float]) -> float:
    """Geometric where it can be, so that no load counts for more than another in a ratio of two configs."""
    return geometric_mean(values) if min(values) > 0 else fmean(values)


@cache
def reference_of(name: str) -> Reference:
    """The reference of the shipped surface `name`, worked out once a process (about 1 s)."""
    return Reference(load_surface(name))
