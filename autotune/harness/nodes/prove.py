"""The proofs that only a change worth committing has to give: it lasts under stress, and it can be taken back."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.change import texts_of
from autotune.harness.context import Context
from autotune.harness.judging import judged
from autotune.harness.state import State
from autotune.harness.trials import Load, carry_out
from tools.canonical import digest
from tools.deployment import parse_deployment
from tools.manifests.yaml_file import YamlFile
from tools.proposal import Proposal
from tools.service.soak import SUSTAINED_LOAD
from tools.targets.knobs import Config
from verifiers import Plan, gather
from verifiers.rules.operation import headroom_soak, rollback_drill

__all__ = ["PROOFS", "drill", "prove"]

PROOFS = frozenset({headroom_soak.RULE, rollback_drill.RULE})
"""What these nodes give the grounds for; a confirmation is worth them if it passes all else."""


def prove(state: State, runtime: Runtime[Context]) -> Command[Literal["drill", "verdict"]]:
    """Soak one launch of the candidate, if the confirmation passes all that it can pass by now."""
    context = runtime.context
    if context.effects.once("worth", "worth", lambda: _worth(context))["status"] != "PASS":
        context.progress.note("no soak and no rollback drill: the confirmation doesn't pass, so nothing is committed")
        return Command(goto="verdict")
    context.progress.phase(
        "prove", "soak of the candidate: a burst, then more load than promised", _seconds(context, 3)
    )
    proposal = _proposal(context)
    candidate = context.baseline.patched(proposal.patch)
    seed = int(digest([context.run.id, candidate.digest, "soak"])[:12], 16)
    carry_out(context, "s1", "soak", "B", proposal, candidate, Load(seed, SUSTAINED_LOAD, soak=True))
    soaked = headroom_soak.verify(gather(context.ledger))
    if soaked.status != "PASS":
        context.progress.note(f"no rollback drill: {soaked.sentence}")
        return Command(goto="verdict")
    return Command(goto="drill")


def drill(state: State, runtime: Runtime[Context]) -> Command[Literal["verdict"]]:
    """Take the change back in memory, and launch what the reverted text says once more."""
    context = runtime.context
    context.progress.phase("prove", "rollback drill: the baseline again, from the reverted text", _seconds(context, 1))
    recorded = context.effects.once("rollback", "rollback", lambda: _taken_back(context))
    plan = _plan(context)
    first = Plan.from_json(plan["plan"]).blocks[0]
    again = Proposal({}, "the change taken back", "baseline")
    config = Config(recorded["config"])
    for number in range(1, rollback_drill.MOST_LAUNCHES + 1):
        carry_out(context, f"r{number}", "rollback", "A", again, config, Load(first.seed, first.load_factor))
        if rollback_drill.verify(gather(context.ledger)).status != "FAIL":
            break
    return Command(goto="verdict")


def _worth(context: Context) -> dict[str, Any]:
    """Whether everything but these proofs passes, and what doesn't. Recorded, so that it is asked once."""
    found = judged(context, without=PROOFS)
    return {"status": found.status, "refused_by": found.refusal.rule if found.refusal else ""}


def _taken_back(context: Context) -> dict[str, Any]:
    """Each file's text as it is, as it would be committed, and with that taken back; and the config that then stands
    in the deployment."""
    texts = texts_of(context, _proposal(context).patch)
    stands = parse_deployment(YamlFile.parse(context.file.path, texts.reverted)).deployment.config
    return {**texts.to_json(), "config": dict(context.space.resolve(stands).values)}


def _proposal(context: Context) -> Proposal:
    return Proposal.from_json(_plan(context)["proposal"])


def _plan(context: Context) -> dict[str, Any]:
    entry = context.ledger.find("plan")
    assert entry is not None
    return dict(entry.data)


def _seconds(context: Context, trials: int) -> float:
    """Foreseen for the proofs that are left; a soak has twice a trial's requests, so it counts as two."""
    return trials * context.history.trial_seconds
