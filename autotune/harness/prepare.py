"""Everything that can be refused is refused here, before a run exists: bad input leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agents.engines import FOREIGN
from agents.playbook import Playbook, load_playbook
from autotune.harness.budget import Budget
from autotune.harness.committed import committed_changes
from autotune.harness.context import suite_of, tunable_knobs
from autotune.harness.laboratory import Laboratory, LiveLaboratory
from autotune.harness.progress import Progress
from tools.canonical import digest
from tools.deployment import DeploymentFile, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.redaction import redacted
from tools.repo import check_committable
from tools.standing import agreed_manifest
from tools.targets.bundled import BundledTarget
from tools.targets.choose import target_of
from tools.targets.knobs import Config, KnobError, Value
from tools.targets.spec import CommandSpec, engine_of
from tools.targets.target import Target
from verifiers import FAMILIES
from verifiers.digest import verifiers_digest

__all__ = ["Again", "LlmOptions", "Options", "Prepared", "prepare"]


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """Where the LLM proposer's endpoint is. The key itself is never stored: only the variable that holds it."""

    base_url: str
    model: str
    api_key_env: str | None = None
    prices: Mapping[str, float] | None = None
    "US dollars for a million tokens: input, cached, output. None: unknown, and no limit in money can be kept."
    timeout_s: float = 90.0
    "Of one question, its retries included."
    max_tokens: int = 2048
    "Of one answer, thoughts included."


@dataclass(frozen=True, slots=True)
class Again:
    """A committed change that is to be confirmed again, whatever it promises by now."""

    commit: str
    patch: Mapping[str, Value]
    "What the commit changed, against the config before it."


@dataclass(frozen=True, slots=True)
class Options:
    """What a person chooses when starting a run; recorded, so that `resume` takes no arguments."""

    proposer: Literal["expert", "llm"] = "expert"
    llm: LlmOptions | None = None
    budget: Budget = field(default_factory=Budget)
    commit: bool = True
    again: Again | None = None
    "The change to confirm, in place of anything that a proposer finds."
    approval: Literal["none", "required"] = "none"
    "Whether a person has to approve before anything is committed."

    def to_json(self) -> dict[str, Any]:
        return {
            "again": {"commit": self.again.commit, "patch": dict(self.again.patch)} if self.again else None,
            "proposer": self.proposer,
            "llm": asdict(self.llm) if self.llm else None,
            "budget": self.budget.to_json(),
            "commit": self.commit,
            "approval": self.approval,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Options:
        llm = LlmOptions(**data["llm"]) if data["llm"] else None
        again = Again(**data["again"]) if data.get("again") else None
        approval = data.get("approval", "none")
        return cls(data["proposer"], llm, Budget(**data["budget"]), data["commit"], again, approval)


@dataclass(frozen=True)
class Prepared:
    """A deployment that passed every check, and what was learned while checking."""

    file: DeploymentFile
    laboratory: Laboratory
    baseline: Config
    playbook: Playbook
    started: dict[str, Any]
    "Data of the ledger's first entry."
    survey: dict[str, Any]


def prepare(
    path: Path,
    options: Options,
    progress: Progress,
    laboratory: Laboratory | None = None,
    *,
    text: str | None = None,
) -> Prepared:
    """Check the deployment at `path` and survey the machine.

    Args:
        laboratory: measures instead of this machine.
        text: the deployment's text, where it isn't what stands in the file now.

    Raises:
        UserError: anything that can't work, said before anything is started. Exit code 2 for a promise that the machine
            can't keep by physics.
    """
    if options.llm is not None and redacted(options.llm.base_url) != options.llm.base_url:
        raise UserError(
            "--llm-url: expected an address, found a secret in it, which would stand in the record; "
            "put it into a variable and name that with --llm-key-env"
        )
    written = YamlFile.read(path) if text is None else YamlFile.parse(path, text)
    file = parse_deployment(written)
    deployment = file.deployment
    standing = agreed_manifest(file) if text is None else None  # an older text has an older manifest
    others = (standing.manifest.path,) if standing else ()
    base = check_committable(file.path, *others) if options.commit else None
    progress.phase("survey", f"model {deployment.model}, hardware, roofline", None)
    if laboratory is None:
        laboratory = LiveLaboratory(target_of(deployment, file.path))
        laboratory.target.check()
    target = laboratory.target
    baseline = _baseline(file, target)
    playbook = load_playbook(deployment.playbook)
    engine = engine_of(deployment.target)
    if engine is not None and not isinstance(deployment.target, CommandSpec):  # whose knobs agree with some of its own
        known = BundledTarget(Path()).knobs if engine == "bundled" else FOREIGN[engine]
        playbook.check_knobs({knob.name: knob.default for knob in known}, engine)
    if unknown := sorted(set(playbook.verifiers) - FAMILIES):
        raise UserError(
            f"playbook {playbook.name}: requires the verifiers {', '.join(unknown)}, which the gate doesn't ask; "
            f"it asks {', '.join(sorted(FAMILIES))}"
        )
    tunable = tunable_knobs(file, target.knobs)
    if not tunable:
        raise UserError(
            f"{path}: nothing may be changed: mark at least one lossless knob under config: with `# autotune: managed`"
        )
    suite_of(file)  # an eval of the owner's that can't be read or run is said now, not after an hour
    survey = laboratory.survey(file, baseline)
    started = {
        "deployment": deployment.model_dump(mode="json", by_alias=True),
        "file": str(file.path),
        "file_text": written.text,
        "manifest": standing.to_json() if standing else None,
        "managed": sorted(file.managed),
        "knobs": target.knobs.to_json(),
        "base": base.to_json() if base else None,
        "history": committed_changes(file.path) if base else [],
        "options": options.to_json(),
        "playbook": {
            "name": deployment.playbook,
            "digest": digest(playbook.model_dump(mode="json")),
            "verifiers": list(playbook.verifiers),
        },
        "verifiers_digest": verifiers_digest(),
    }
    return Prepared(file, laboratory, baseline, playbook.for_engine(engine), started, survey)


def _baseline(file: DeploymentFile, target: Target) -> Config:
    try:
        return target.knobs.resolve(file.deployment.config)
    except KnobError as refusal:
        raise KnobError(f"{file.path}: config: {refusal}") from None
