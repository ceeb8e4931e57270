"""The proofs that only a change worth committing has to give: it lasts under stress, and it can be taken back."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command

from autotune.harness.context import Context
from autotune.harness.judging import judged
from autotune.harness.reversal import Reversal
from autotune.harness.state import State
from autotune.harness.trials import Load, carry_out
from tools.canonical import digest
from tools.deployment import parse_deployment
from tools.manifests.yaml_file import KeyPath, YamlFile
from tools.proposal import Proposal
from tools.service.soak import SUSTAINED_LOAD
from tools.targets.knobs import Config, Value
from verifiers import Plan, gather
from verifiers.rules.operation import headroom_soak, rollback_drill

__all__ = ["drill", "prove"]


def prove(state: State, runtime: Runtime[Context]) -> Command[Literal["drill", "verdict"]]:
    """Soak one launch of the candidate, if the confirmation passes all that it can pass by now."""
    context = runtime.context
    if not _worth_it(context):
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


def _worth_it(context: Context) -> bool:
    """Whether everything but these proofs passes. Pure in the ledger, so a resumed run answers the same."""
    proofs = frozenset({headroom_soak.RULE, rollback_drill.RULE})
    return judged(context, "confirm", without=proofs).status == "PASS"


def _taken_back(context: Context) -> dict[str, Any]:
    """The file's text as it is, as it would be committed, and with that taken back; and the config in the last one."""
    started = context.ledger.find("run.started")
    assert started is not None
    path, before = context.file.path, started.data["file_text"]
    changes = context.baseline.diff(context.baseline.patched(_proposal(context).patch))
    values: dict[KeyPath, Value] = {("config", name): new for name, (_, new) in changes.items() if new is not None}
    after = YamlFile.parse(path, before).splice(values)
    reverted = Reversal.of(before, after).applied(after)
    stands = parse_deployment(YamlFile.parse(path, reverted)).deployment.config
    return {
        "before": before,
        "after": after,
        "reverted": reverted,
        "config": dict(context.space.resolve(stands).values),
    }


def _proposal(context: Context) -> Proposal:
    return Proposal.from_json(_plan(context)["proposal"])


def _plan(context: Context) -> dict[str, Any]:
    entry = context.ledger.find("plan")
    assert entry is not None
    return dict(entry.data)


def _seconds(context: Context, trials: int) -> float:
    """Foreseen for the proofs that are left; a soak has twice a trial's requests, so it counts as two."""
    return trials * context.history.trial_seconds
