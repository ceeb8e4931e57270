"""Would the commit change exactly what was planned: one file, those keys, nothing else?"""

from __future__ import annotations

from pathlib import Path

from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.targets.knobs import Value
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.only_planned"


def verify(evidence: Evidence) -> Verdict:
    """The deployment file alone; its data differ by the plan's patch; every other character is the owner's.

    The reverse change must give the file back as it was, so that the commit can be undone by the same means.
    """
    change = evidence.change
    if change is None:
        return error(RULE, "it isn't recorded what would be committed")
    if not evidence.patch:
        return error(RULE, "there is no plan that says what was verified")
    if others := [name for name in change.files if name != change.file]:
        return failed(RULE, f"the commit would also change {', '.join(sorted(others)[:3])}")
    if change.files != (change.file,):
        return failed(RULE, f"the commit wouldn't change {change.file}")
    try:
        before = YamlFile.parse(Path(change.file), change.before_text)
        after = YamlFile.parse(Path(change.file), change.after_text)
        expected = before.splice({("config", name): value for name, value in _planned(evidence).items()})
    except UserError as refusal:
        return failed(RULE, f"the change can't be read: {refusal}")
    if after.data != YamlFile.parse(Path(change.file), expected).data:
        return failed(RULE, f"the file's values would differ by more or less than {', '.join(sorted(evidence.patch))}")
    if change.after_text != expected:
        return failed(RULE, "comments, order or spacing of the file would change beside the values")
    if change.reverted_text != change.before_text:
        return failed(RULE, "the reverse change doesn't give the file back as it was")
    return passed(RULE, f"one file, {len(_planned(evidence))} planned values, and the reverse change gives it back")


def _planned(evidence: Evidence) -> dict[str, Value]:
    """The values that differ from what the owner's config comes to."""
    return {name: new for name, new in evidence.changes.items() if new is not None}
