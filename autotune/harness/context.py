"""Context: what the graph's nodes work with. Dependencies live here, never in the state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agents.playbook import Playbook
from agents.proposer import Proposer
from autotune.harness.answer import Answer
from autotune.harness.effects import Effects
from autotune.harness.history import History
from autotune.harness.laboratory import Laboratory
from autotune.harness.progress import Progress
from autotune.harness.rundir import RunDir
from tools.canonical import digest
from tools.deployment import DeploymentFile
from tools.evals.suite import Suite
from tools.ledger import Ledger
from tools.targets.knobs import Config, KnobSpace
from tools.targets.target import Target

__all__ = ["Context", "suite_of", "tunable_knobs"]


@dataclass(frozen=True)
class Context:
    """One run's dependencies."""

    run: RunDir
    file: DeploymentFile
    laboratory: Laboratory
    space: KnobSpace
    baseline: Config
    playbook: Playbook
    proposer: Proposer
    effects: Effects
    progress: Progress
    commit: bool
    "False measures and judges only."
    approval: bool = False
    "A person has to approve before anything is committed."
    confirm_anyway: bool = False
    "The best candidate is confirmed even where it promises nothing, as when a commit is confirmed again."

    answer: Answer | None = None
    "What a person says in this session to the request for approval."

    @property
    def target(self) -> Target:
        return self.laboratory.target

    @cached_property
    def evals(self) -> Suite:
        """What servers are asked in a confirmation.

        Raises:
            UserError: one of the deployment's own evals can't be read or run.
        """
        return suite_of(self.file)

    @property
    def ledger(self) -> Ledger:
        return self.effects.ledger

    @property
    def history(self) -> History:
        """What the ledger says so far, read afresh."""
        return History.read(self.ledger, self.baseline)

    @property
    def tunable(self) -> frozenset[str]:
        """Knobs that a commit may change: managed, tunable by nature, and lossless where that is promised."""
        return tunable_knobs(self.file, self.space)

    @property
    def search_space(self) -> KnobSpace:
        """The tunable knobs, within what makes sense on this machine."""
        survey = self.ledger.find("survey")
        assert survey is not None
        cores, memory_bytes = survey.data["facts"]["cores"], survey.data["memory_bytes"]
        space = self.space.only(self.tunable)
        return self.target.narrowed(space, self.baseline, cores=cores, memory_bytes=memory_bytes)

    @property
    def search_seed(self) -> int:
        """One workload seed for every trial of the exploration: what they share can't separate them."""
        return int(digest([self.run.id, "search"])[:12], 16)


def suite_of(file: DeploymentFile) -> Suite:
    """The evals of the deployment in `file`, its own among them; the longest prompt fills the context it declares.

    Raises:
        UserError: one of its own evals can't be read or run.
    """
    declared = file.deployment.config.get("max_model_len")
    context_tokens = declared if type(declared) is int and declared > 0 else None
    return Suite.of(file.deployment.evals, file.path.parent, context_tokens)


def tunable_knobs(file: DeploymentFile, space: KnobSpace) -> frozenset[str]:
    """Names of the knobs of `space` that a proposal for the deployment in `file` may change."""
    lossless = file.deployment.quality == "lossless"
    return frozenset(
        knob.name
        for knob in space
        if knob.name in file.managed and knob.tunable and not (lossless and knob.outputs == "lossy")
    )
