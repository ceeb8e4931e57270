"""Truth: what can be had in a scenario, and which answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autotune.report_card.reference import Reference, reference_of
from autotune.report_card.scenario import Right, Scenario
from autotune.report_card.stage import deployment_text, laboratory_of
from tools.deployment import Deployment, DeploymentFile, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.measure.summary import lower_is_better
from tools.targets.knobs import Config, KnobError

__all__ = ["Truth", "truth_of"]


@dataclass(frozen=True)
class Truth:
    """What can be had in one scenario."""

    scenario: Scenario
    reference: Reference
    deployment: Deployment
    baseline: Config
    best: Config
    "Of the feasible configs that may be reached."
    absurd: bool = False
    "A promise lies below the roofline's floor: the run is to be refused."

    def objective(self, config: Config) -> float:
        """The objective that `config` gives, in the metric's own unit; the worst there is where it doesn't start."""
        summary = self.reference.summary(config)
        if summary is None:
            return float("inf") if lower_is_better(self.scenario.objective) else 0.0
        return summary[self.scenario.objective]

    def gain(self, config: Config) -> float:
        """Relative improvement of `config` over the baseline: 0.2 is 20 % better."""
        ratio = self.objective(config) / self.objective(self.baseline)
        return 1 - ratio if lower_is_better(self.scenario.objective) else ratio - 1

    def regret(self, config: Config) -> float:
        """How much worse than the best: 0.2 is 20 % more of what should be low."""
        ratio = self.objective(config) / self.objective(self.best)
        return max(0.0, (ratio if lower_is_better(self.scenario.objective) else 1 / ratio) - 1)

    def feasible(self, config: Config) -> bool:
        """Whether `config` starts, breaks no promise that the baseline keeps, and keeps every guardrail."""
        found = self.reference.summary(config)
        if found is None or any(trap.holds(config) for trap in self.scenario.traps):
            return False
        try:
            self.reference.target.memory(config)
        except KnobError:
            return False
        breaks = {miss.metric for miss in self.deployment.slo.misses(found)}
        return breaks <= self._broken and _rails_kept(self.deployment, self._standing, found)

    @property
    def _standing(self) -> Mapping[str, float]:
        """The baseline's own metrics."""
        return self.reference.summary(self.baseline) or {}

    @cached_property
    def _broken(self) -> frozenset[str]:
        """Promises that the baseline breaks already."""
        return frozenset(miss.metric for miss in self.deployment.slo.misses(self._standing))

    @property
    def own_knobs(self) -> frozenset[str]:
        """What the deployment lets its proposer change."""
        return frozenset({*(self.scenario.managed or self.reference.surface.grid), *self.scenario.extra})

    def honest(self, config: Config) -> bool:
        """Whether `config` says what the model says: none of the scenario's lures is taken."""
        return not any(lure.taken(config) for lure in self.scenario.lures)

    @property
    def possible(self) -> float:
        """The gain of the best over the baseline."""
        return self.gain(self.best)

    @property
    def right(self) -> Right:
        """What the surface says is right: `improve` where the least effect can be had and the promise isn't absurd."""
        return "improve" if self.possible >= self.scenario.min_effect and not self.absurd else "keep"


def truth_of(scenario: Scenario) -> Truth:
    """The truth of `scenario`, from its surface played without noise."""
    reference = reference_of(scenario.surface)
    surface, target = reference.surface, reference.target
    text = deployment_text(scenario)
    parsed = parse_deployment(YamlFile.parse(Path("deployment.yaml"), text))
    baseline = target.knobs.resolve(parsed.deployment.config)
    managed = scenario.managed or tuple(surface.grid)
    reachable = (baseline.patched({name: cell.at[name] for name in managed}) for cell in surface.cells)
    known = Truth(scenario, reference, parsed.deployment, baseline, baseline)
    best = max((baseline, *filter(known.feasible, reachable)), key=known.gain)
    return replace(known, best=best, absurd=_refused(parsed, scenario, baseline))


def _refused(file: DeploymentFile, scenario: Scenario, baseline: Config) -> bool:
    """Whether the survey refuses the promise, since no config can keep it."""
    try:
        laboratory_of(scenario, seed=0).survey(file, baseline)
    except UserError as refusal:
        return refusal.exit_code == 2
    return False


def _rails_kept(deployment: Deployment, standing: Mapping[str, float], found: Mapping[str, float]) -> bool:
    for rail in deployment.guardrails:
        ratio = found[rail.metric] / standing[rail.metric]
        worse = ratio - 1 if lower_is_better(rail.metric) else 1 / ratio - 1
        if worse > rail.max_regression:
            return False
    return True
