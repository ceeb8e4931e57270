"""Change: what a commit would do, collected before it does it, and what the harness is made of at that moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.playbook import load_playbook
from autotune.harness.context import Context
from autotune.harness.reversal import Reversal
from tools.canonical import digest
from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.ledger import Entry, LedgerView
from tools.manifests.yaml_file import YamlFile
from tools.repo import files_to_change, head_of, object_at
from tools.standing import Standing
from tools.targets.knobs import Config
from verifiers import Change, Judgement, ManifestChange, gather
from verifiers.claims import cells_of, shown
from verifiers.digest import digest_on_disk

__all__ = ["ManifestTexts", "Texts", "change_of", "harness_now", "message_of", "prose_of", "shown_of", "texts_of"]


def harness_now(context: Context) -> dict[str, Any]:
    """What judges, playbook, deployment and workload are now, read afresh from where they come from."""
    text = _current_text(context.file.path)
    return {
        "verifiers_digest": digest_on_disk(),
        "playbook_digest": _playbook_digest(context.file.deployment.playbook),
        "file_text": text,
        "workload_digest": _workload_digest(context.file.path, text),
    }


def _current_text(path: Path) -> str:
    """The file as it lies there now. What can't be read is no text that was verified, and is refused as such."""
    return path.read_bytes().decode(errors="replace") if path.is_file() else ""


def _playbook_digest(name: str) -> str:
    """Empty where no playbook can be read there any more."""
    try:
        return digest(load_playbook(name).model_dump(mode="json"))
    except UserError:
        return ""


def _workload_digest(path: Path, text: str) -> str:
    """Empty where no deployment can be read there any more."""
    try:
        return parse_deployment(YamlFile.parse(path, text)).deployment.workload.digest
    except UserError:
        return ""


def change_of(context: Context, verdict: Entry) -> dict[str, Any]:
    """The fields of `verifiers.evidence.Change`, for the ledger.

    Raises:
        UserError: the repository can't be read any more.
    """
    plan, started = context.ledger.find("plan"), context.ledger.find("run.started")
    assert plan is not None and started is not None
    texts = texts_of(context, plan.data["patch"])
    values = _changes(context.baseline, plan.data["patch"])
    names, files = files_to_change(
        {context.file.path: texts.after, **({texts.manifest.file: texts.manifest.after} if texts.manifest else {})}
    )
    head = head_of(context.file.path)
    change = Change(
        file=names[0],
        files=tuple(files),
        before_text=texts.before,
        after_text=texts.after,
        reverted_text=texts.reverted,
        current_text=_current_text(context.file.path),
        base_head=started.data["base"]["head"],
        current_head=head,
        current_object=object_at(context.file.path, head),
        message=message_of(context.file.deployment.name, values, Judgement.from_json(verdict.data)),
        prose=prose_of(context.ledger),
        manifest=_manifest_change(names[1], texts.manifest, head) if texts.manifest else None,
    )
    return change.to_json()


def _manifest_change(name: str, texts: ManifestTexts, head: str) -> ManifestChange:
    return ManifestChange(
        file=name,
        before_text=texts.before,
        after_text=texts.after,
        reverted_text=texts.reverted,
        current_text=_current_text(texts.file),
        current_object=object_at(texts.file, head),
    )


@dataclass(frozen=True, slots=True)
class ManifestTexts:
    """The manifest as the run found it, as it would be committed, and with that taken back."""

    file: Path
    before: str
    after: str
    reverted: str


@dataclass(frozen=True, slots=True)
class Texts:
    """The same of the deployment's file."""

    before: str
    after: str
    reverted: str
    manifest: ManifestTexts | None

    def to_json(self) -> dict[str, Any]:
        """Texts alone, for the ledger."""
        manifest = self.manifest
        texts = {"before": self.before, "after": self.after, "reverted": self.reverted}
        if manifest is None:
            return {**texts, "manifest": None}
        return {
            **texts,
            "manifest": {"before": manifest.before, "after": manifest.after, "reverted": manifest.reverted},
        }


def texts_of(context: Context, patch: Mapping[str, Any]) -> Texts:
    """What `patch` makes of the deployment's file and its manifest, and what taking it back makes of that.

    Raises:
        UserError: a value that can't be edited where it stands.
    """
    started = context.ledger.find("run.started")
    assert started is not None
    before, begun = started.data["file_text"], started.data.get("manifest")
    changed = {name: new for name, (_, new) in _changes(context.baseline, patch).items() if new is not None}
    values: dict[tuple[str, ...], Any] = {("config", name): new for name, new in changed.items()}
    after = YamlFile.parse(context.file.path, before).splice(values)
    manifest: ManifestTexts | None = None
    if begun is not None:
        file, stood = Path(begun["file"]), begun["text"]
        stands = Standing.of(context.file.deployment, file, stood).changed(changed)
        manifest = ManifestTexts(file, stood, stands, Reversal.of(stood, stands).applied(stands))
    return Texts(before, after, Reversal.of(before, after).applied(after), manifest)


def _changes(baseline: Config, patch: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return baseline.diff(baseline.patched(patch))


def message_of(deployment: str, changes: Mapping[str, tuple[Any, Any]], judgement: Judgement) -> str:
    """The commit's message: rendered from the ledger, and no word of a proposer in it."""
    lines = [f"Tune {deployment}: {', '.join(sorted(changes))}", ""]
    lines += [f"- {name}: {json.dumps(old)} -> {json.dumps(new)}" for name, (old, new) in changes.items()]
    lines += ["", *(f"{v.status} {v.rule}: {v.sentence}" for v in judgement.verdicts)]
    return "\n".join(lines)


def prose_of(ledger: LedgerView) -> tuple[str, ...]:
    """Every text by a proposer that people are shown, once each: what is withheld from them isn't among them."""
    said = dict.fromkeys(
        text
        for entry in ledger.of_kind("action")
        for text in (entry.data["action"].get(name, "") for name in ("hypothesis", "why", "reason"))
        if text
    )
    evidence = gather(ledger)
    cells = cells_of(evidence)
    return tuple(text for text in said if shown(text, cells, evidence.deployment.objective.metric) == text)


def shown_of(ledger: LedgerView, text: str) -> str:
    """A proposer's text as people may be shown it by what `ledger` holds so far."""
    evidence = gather(ledger)
    return shown(text, cells_of(evidence), evidence.deployment.objective.metric)
