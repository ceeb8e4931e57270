"""Would the commit change exactly what was planned: the deployment, its manifest, those values, nothing else?"""

from __future__ import annotations

from pathlib import Path

from tools.deployment import Deployment, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.standing import Standing
from tools.targets.knobs import Value
from verifiers.evidence import Change, Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.only_planned"


def verify(evidence: Evidence) -> Verdict:
    """The deployment file, and the manifest that it names; their values differ by the plan's patch; every other
    character is the owner's.

    The reverse change must give each file back as it was, so that the commit can be undone by the same means.
    """
    change = evidence.change
    if change is None:
        return error(RULE, "it isn't recorded what would be committed")
    if not evidence.patch:
        return error(RULE, "there is no plan that says what was verified")
    expected = [change.file, *([change.manifest.file] if change.manifest else [])]
    if others := sorted(set(change.files) - set(expected)):
        return failed(RULE, f"the commit would also change {', '.join(others[:3])}")
    if sorted(change.files) != sorted(expected):
        return failed(RULE, f"the commit wouldn't change {' and '.join(sorted(set(expected) - set(change.files)))}")
    fault = _deployment_fault(evidence, change) or _manifest_fault(evidence, change)
    if fault:
        return failed(RULE, fault)
    files = "one file" if change.manifest is None else f"{change.file} and {change.manifest.file}"
    return passed(RULE, f"{files}, {len(_planned(evidence))} planned values, and the reverse change gives it back")


def _deployment_fault(evidence: Evidence, change: Change) -> str:
    """What the deployment's texts do beside the plan; empty where nothing."""
    try:
        before = YamlFile.parse(Path(change.file), change.before_text)
        after = YamlFile.parse(Path(change.file), change.after_text)
        expected = before.splice({("config", name): value for name, value in _planned(evidence).items()})
    except UserError as refusal:
        return f"the change can't be read: {refusal}"
    if after.data != YamlFile.parse(Path(change.file), expected).data:
        return f"the file's values would differ by more or less than {', '.join(sorted(evidence.patch))}"
    if change.after_text != expected:
        return "comments, order or spacing of the file would change beside the values"
    if change.reverted_text != change.before_text:
        return "the reverse change doesn't give the file back as it was"
    return ""


def _manifest_fault(evidence: Evidence, change: Change) -> str:
    """The same of the manifest: the very one that the deployment names."""
    deployment = _owners(change)
    if deployment is None:
        return "the deployment before the change can't be read"
    if deployment.manifest is None:
        return f"the deployment names no manifest, and {change.manifest.file} would change" if change.manifest else ""
    named = deployment.manifest.beside(change.file)
    if change.manifest is None or change.manifest.file != named:
        return f"the deployment's config stands in {named} too, which wouldn't change with it"
    manifest = change.manifest
    try:
        expected = Standing.of(deployment, Path(named), manifest.before_text).changed(_planned(evidence))
    except UserError as refusal:
        return f"the manifest can't be changed as planned: {refusal}"
    if manifest.after_text != expected:
        return f"{named} would change by more or less than {', '.join(sorted(evidence.patch))}"
    if manifest.reverted_text != manifest.before_text:
        return f"the reverse change doesn't give {named} back as it was"
    return ""


def _owners(change: Change) -> Deployment | None:
    try:
        return parse_deployment(YamlFile.parse(Path(change.file), change.before_text)).deployment
    except UserError:
        return None


def _planned(evidence: Evidence) -> dict[str, Value]:
    """The values that differ from what the owner's config comes to."""
    return {name: new for name, new in evidence.changes.items() if new is not None}
