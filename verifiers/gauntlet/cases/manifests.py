"""Attacks on a change of two files (D08, D10, D12, E07): the deployment, and the manifest that the platform reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tools.canonical import digest
from tools.ledger import Entry
from verifiers.evidence import Evidence, ManifestChange
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import with_change, with_data
from verifiers.gauntlet.honest import Story, tell

__all__ = ["CASES"]


@cache
def _twice() -> Evidence:
    """A run whose config stands in a manifest too."""
    return tell(Story().standing_twice())


def _manifest() -> ManifestChange:
    change = _twice().change
    assert change is not None and change.manifest is not None
    return change.manifest


def _in_manifest(**fields: str) -> Evidence:
    return with_change(_twice(), manifest=replace(_manifest(), **fields))


def _another_service() -> Evidence:
    """The canary gets the seats too, which nobody verified."""
    return _in_manifest(after_text=_manifest().after_text.replace("--max-num-seqs 2", "--max-num-seqs 16"))


def _manifest_comment() -> Evidence:
    return _in_manifest(after_text=_manifest().after_text.replace("platform team", "team"))


def _manifest_stays() -> Evidence:
    """The deployment says one thing and what is deployed another."""
    return with_change(_twice(), files=("deployment.yaml",), manifest=None)


def _third_file() -> Evidence:
    return with_change(_twice(), files=("compose.yaml", "deployment.yaml", "compose.override.yaml"))


def _another_manifest() -> Evidence:
    """The file that would change is another than the owner named."""
    other = replace(_manifest(), file="production/compose.yaml")
    return with_change(_twice(), files=("deployment.yaml", other.file), manifest=other)


def _manifest_changed() -> Evidence:
    """Somebody edited the manifest in the meantime."""
    return _in_manifest(current_text=_manifest().current_text.replace("v0.11.0", "v0.12.0"))


def _manifest_base_moved() -> Evidence:
    """A commit changed the manifest, and left the deployment alone."""
    moved = with_change(_twice(), current_head=digest("somebody's commit")[:40], current_object=_begun_object())
    return with_change(moved, manifest=replace(_manifest(), current_object=digest("another manifest")[:40]))


def _begun_object() -> str:
    return str(_twice().of_kind("run.started")[0].data["base"]["object"])


def _drilled_another() -> Evidence:
    """What was taken back isn't the manifest that would be committed."""

    def elsewhere(entry: Entry) -> Mapping[str, Any]:
        texts = entry.data["manifest"]
        return {**entry.data, "manifest": {**texts, "after": texts["before"]}}

    return with_data(_twice(), "rollback", elsewhere)


def _token_in_manifest() -> Evidence:
    secret = "hf_" + "QxTzVbNmKjHgFdSaPoIu"
    return _in_manifest(after_text=_manifest().after_text + f"# {secret}\n")


CASES: tuple[Case, ...] = (
    Case("f01", "D08", "change.only_planned", "another service of the manifest is changed too", _another_service),
    Case("f02", "D08", "change.only_planned", "a comment of the manifest is changed too", _manifest_comment),
    Case("f03", "D08", "change.only_planned", "the manifest isn't changed with the deployment", _manifest_stays),
    Case("f04", "D08", "change.only_planned", "a third file is changed too", _third_file),
    Case("f05", "D08", "change.only_planned", "another manifest than the owner's is changed", _another_manifest),
    Case("f06", "D12", "change.base_fresh", "somebody changed the manifest meanwhile", _manifest_changed),
    Case("f07", "D12", "change.base_fresh", "a commit changed the manifest meanwhile", _manifest_base_moved),
    Case("f08", "E07", "change.secrets", "a token in the manifest", _token_in_manifest),
    Case("f09", "D10", "rollback.drill", "another manifest was taken back", _drilled_another),
)
