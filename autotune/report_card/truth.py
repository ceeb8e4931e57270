"""Truth: what can be had in a scenario, and which answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    baseline: Config
    best: Config
    "Of the configs that may be reached, start, break no promise that the baseline keeps, and keep every guardrail."
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
    deployment = parsed.deployment
    baseline = target.knobs.resolve(deployment.config)
    standing = reference.summary(baseline) or {}
    broken = {miss.metric for miss in deployment.slo.misses(standing)}

    def feasible(config: Config) -> bool:
        found = reference.summary(config)
        if found is None or any(trap.holds(config) for trap in scenario.traps):
            return False
        try:
            target.memory(config)
        except KnobError:
            return False
        breaks = {miss.metric for miss in deployment.slo.misses(found)}
        return breaks <= broken and _rails_kept(deployment, standing, found)

    managed = scenario.managed or tuple(surface.grid)
    reachable = (baseline.patched({name: cell.at[name] for name in managed}) for cell in surface.cells)
    known = Truth(scenario, reference, baseline, baseline)
    best = max((baseline, *filter(feasible, reachable)), key=known.gain)
    absurd = _refused(parsed, scenario, baseline)
    return Truth(scenario, reference, baseline, best, absurd)


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
