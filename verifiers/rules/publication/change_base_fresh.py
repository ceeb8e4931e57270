"""Is what would be changed still what the run began on?"""

from __future__ import annotations

from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.base_fresh"


def verify(evidence: Evidence) -> Verdict:
    """The deployment file, and the manifest with it, are what they were at the run's first entry: in the checkout, and
    in the commit to build on.

    Commits that came since and left them alone don't matter.
    """
    change = evidence.change
    started = evidence.of_kind("run.started")
    if change is None or not started:
        return error(RULE, "it isn't recorded what the run began on, or what would be committed")
    begun = started[0].data.get("manifest") or {}
    files = [(change, started[0].data["file_text"]), (change.manifest, begun.get("text"))]
    for file, text in files:
        if file is None:
            continue  # whether one had to be there is the plan's question
        if file.before_text != text:
            return failed(RULE, f"what would be changed isn't the {file.file} that the run began with")
        if file.current_text != file.before_text:
            return failed(RULE, f"{file.file} was changed since the run began; what was verified may no longer apply")
    base = started[0].data["base"]
    if base is None:
        return error(RULE, "the run began without a commit to build on")
    if change.base_head != base["head"]:
        return failed(
            RULE, f"the change names {change.base_head[:12]} as its base, the run began on {base['head'][:12]}"
        )
    if change.current_head == change.base_head:
        names = ", ".join(file.file for file, _ in files if file is not None)
        return passed(RULE, f"{names} and the base {change.base_head[:12]} are as the run found them")
    moved = f"the base moved from {change.base_head[:12]} to {change.current_head[:12]} since the run began"
    known = base.get("others", {})
    objects = {change.file: (change.current_object, base["object"])}
    if change.manifest is not None:
        objects[change.manifest.file] = (change.manifest.current_object, known.get(change.manifest.file))
    if other := [name for name, (now, then) in objects.items() if now != then]:
        return failed(RULE, f"{moved}, and {other[0]} isn't there what it was; tune again from there")
    return passed(RULE, f"{moved}, and {' and '.join(objects)} {'is' if len(objects) == 1 else 'are'} as the run found")
