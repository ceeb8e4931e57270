"""What an honest run holds beside its confirmation: the soak, the rollback drill, and the record they rest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from autotune.harness.reversal import Reversal
from tools.ledger import Entry
from tools.manifests.yaml_file import KeyPath, YamlFile
from tools.service.soak import SUSTAINED_LOAD, soaking
from tools.targets.knobs import Value
from verifiers import Evidence, TrialEvidence

BEGAN = 1_700_000_000.0


def with_proofs(evidence: Evidence, trial: Callable[..., TrialEvidence], seconds: float = 0.8) -> Evidence:
    """`evidence` of a confirmation with all that a run records once it passes; `seconds` is the rollback's TTFT."""
    assert evidence.plan is not None and evidence.candidate is not None
    deployment, first = evidence.deployment, evidence.plan.blocks[0]
    soak = trial(
        "s1",
        evidence.candidate,
        first.seed + 1,
        ttft_s=0.3,
        arm="B",
        role="soak",
        seq=40,
        load_factor=SUSTAINED_LOAD,
        spec=soaking(deployment.workload),
        deployment=deployment,
    )
    again = trial("r1", evidence.baseline, first.seed, ttft_s=seconds, role="rollback", seq=42, deployment=deployment)
    before = text_of(evidence)
    values: dict[KeyPath, Value] = {
        ("config", name): value for name, value in evidence.changes.items() if value is not None
    }
    after = YamlFile.parse(Path("deployment.yaml"), before).splice(values)
    drill = {
        "before": before,
        "after": after,
        "reverted": Reversal.of(before, after).applied(after),
        "config": dict(evidence.baseline.values),
    }
    started = entry(0, "run.started", {"file": "deployment.yaml", "file_text": before, "history": []})
    return replace(evidence, extra=(soak, again), entries=(*evidence.entries, started, entry(41, "rollback", drill)))


def text_of(evidence: Evidence) -> str:
    """The deployment's file: every knob of the baseline stands in it, managed where the evidence says so."""
    content = evidence.deployment.model_dump(mode="json", by_alias=True, exclude_unset=True)
    content["config"] = dict(evidence.baseline.values)
    lines = yaml.safe_dump(content, sort_keys=False).splitlines()
    marked = {f"  {name}" for name in evidence.managed}
    return "".join(line + ("  # autotune: managed\n" if line.partition(":")[0] in marked else "\n") for line in lines)


def entry(seq: int, kind: str, data: dict[str, Any], at: float = BEGAN) -> Entry:
    return Entry.seal(seq, at + seq, kind, None, data, "0" * 64)


def recorded(evidence: Evidence, kind: str, **changes: Any) -> Evidence:
    """The same evidence with other data in the entry of `kind`; None takes a field away."""
    entries = tuple(
        entry(e.seq, kind, {k: v for k, v in {**e.data, **changes}.items() if v is not None}) if e.kind == kind else e
        for e in evidence.entries
    )
    return replace(evidence, entries=entries)
