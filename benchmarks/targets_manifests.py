"""Row `manifests`: what people deploy from, read, edited knob by knob and read back.

Each of the examples in tests/tools/files/manifests: every site is read through its engine's knob table; some knobs get
other values and one gets a value that wasn't said; the edited text must read as planned with all comments kept, and
the inverse edits must give back the very bytes (where a word was taken out, the same words: on which line it stood is
forgotten). A site that must not be edited (its value is shared by an anchor) has
to be refused by name instead.

    python -m benchmarks.targets_manifests
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers import ROOT
from benchmarks.table import Row
from tools.errors import UserError
from tools.manifests import CommandSite, Manifest, read_manifest
from tools.targets.knobs import Knob, Value
from tools.targets.tables import KnobTable, table_for
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, WordEdit

__all__ = ["row"]

EXAMPLES = ROOT / "tests" / "tools" / "files" / "manifests"
REFUSED = {"compose-anchors.yaml: services.blue.command", "compose-anchors.yaml: services.green.command"}
SILENT = {"helm-production-stack.yaml: servingEngineSpec.modelSpec[1].vllmConfig"}
"""Where silence said a knob's value, so that the way back is a line that says it: the same words, other bytes."""

_ADDED: Mapping[str, tuple[str, Value]] = {
    "vllm": ("max_num_batched_tokens", 4096),
    "sglang": ("max_running_requests", 48),
    "llamacpp": ("ubatch", 128),
}
_LINES = 10_000


@dataclass(frozen=True, slots=True)
class Tried:
    """One site: how many knobs were changed there, and what went wrong (empty: nothing)."""

    place: str
    knobs: int
    wrong: str


def row(quick: bool) -> Row:
    """The same work either way: it takes seconds."""
    tried = [each for path in sorted(EXAMPLES.iterdir()) for each in _file(path.name)]
    right = [each for each in tried if not each.wrong]
    return {
        "value": len(right),
        "goal": f"all of {len(tried)} sites (at least 20) exact, there and back",
        "ok": len(right) == len(tried) >= 20,
        "files": len({each.place.split(": ")[0] for each in tried}),
        "knobs_changed": sum(each.knobs for each in tried),
        "refused_as_they_must": sorted(REFUSED),
        "wrong": {each.place: each.wrong for each in tried if each.wrong},
        "seconds_for_10000_lines": _long_file(),
    }


def _file(name: str) -> Iterator[Tried]:
    try:
        manifest = read_manifest(EXAMPLES / name)
    except UserError:
        return  # a chart's template: refused by name, which the tests hold
    for site in manifest.sites:
        if site.engine == "bundled" or not site.words:
            continue
        place = f"{name}: {site.where}"
        changes = _changes(table_for(site.engine), site)
        try:
            wrong = _there_and_back(manifest, site, table_for(site.engine), changes, to_bytes=place not in SILENT)
        except UserError as error:
            wrong = "" if place in REFUSED and "shared through a YAML anchor" in str(error) else str(error)
        else:
            wrong = wrong or ("it had to be refused" if place in REFUSED else "")
        yield Tried(place, len(changes), wrong)


def _changes(table: KnobTable, site: CommandSite) -> dict[str, Value]:
    """Other values for the knobs that are said, and one for a knob that isn't."""
    said = table.read(site.arguments, site.environment).values
    changes = {name: _other(table.space[name], value) for name, value in said.items()}
    name, value = _ADDED[site.engine]
    return changes | ({name: value} if name not in said else {})


def _other(knob: Knob, value: Value) -> Value:
    if knob.kind == "bool":
        return not value
    if knob.kind == "choice":
        return next(choice for choice in knob.choices if choice != value and type(choice) is type(value))
    assert not isinstance(value, str)
    other = value + 1 if knob.kind == "int" else value / 2
    return other if knob.high is None or other <= knob.high else value - 1


def _there_and_back(
    manifest: Manifest, site: CommandSite, table: KnobTable, changes: Mapping[str, Value], to_bytes: bool
) -> str:
    """What is wrong with the edit, its reading or its inverse."""
    before = table.read(site.arguments, site.environment)
    edits = site.placed(site.for_words(table.edits(site.arguments, site.environment, changes)))
    text = manifest.edited(site, edits)
    edited = read_manifest(manifest.path, text)
    there = edited.site(site.where)
    after = table.read(there.arguments, there.environment)
    planned = before.values | changes
    silent = {name: table.space[name].default for name in planned if name not in after.values}
    if after.values | silent != planned or (after.rest, after.environment) != (before.rest, before.environment):
        return f"reads as {after}, not as {before} with {changes}"
    if _comments(text) != _comments(manifest.text):
        return "a comment was lost"
    back = edited.edited(there, _inverse(site, edits))
    if not to_bytes or any(isinstance(edit, Delete) for edit in edits):  # on which line it stood isn't known any more
        return "" if read_manifest(manifest.path, back).site(site.where).words == site.words else back
    return "" if back == manifest.text else f"the way back gives other bytes: {back!r}"


def _inverse(site: CommandSite, edits: Sequence[WordEdit]) -> list[WordEdit]:
    """The edits that undo `edits` of `site`, with the places that those leave."""
    words, variables = site.words, [edit for edit in edits if isinstance(edit, SetVariable)]
    undone: list[WordEdit] = [SetVariable(edit.name, site.environment.get(edit.name)) for edit in variables]
    moved = 0
    for edit in sorted((edit for edit in edits if not isinstance(edit, SetVariable)), key=lambda edit: edit.at):
        if isinstance(edit, Replace):
            undone.append(Replace(edit.at + moved, words[edit.at]))
        elif isinstance(edit, Insert):
            undone.append(Delete(edit.at + moved, len(edit.words)))
            moved += len(edit.words)
        else:
            undone.append(Insert(edit.at + moved, tuple(words[edit.at : edit.at + edit.count])))
            moved -= edit.count
    return undone


def _comments(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)(#.*)", text)


def _long_file() -> float:
    """CPU seconds to read a Compose file of ten thousand lines and to edit it."""
    start = (EXAMPLES / "compose-vllm-list.yaml").read_text()
    service = "  s{}:\n    image: nginx:1\n    command: [nginx, -g]\n    ports:\n      - '80:80'  # a comment\n"
    services = (service.format(number) for number in range((_LINES - start.count("\n")) // service.count("\n")))
    text = start + "".join(services)
    began_s = time.process_time()
    manifest = read_manifest(EXAMPLES / "compose-vllm-list.yaml", text)
    site = manifest.site()
    table = table_for("vllm")
    manifest.edited(site, site.for_words(table.edits(site.arguments, site.environment, {"max_num_seqs": 64})))
    return round(time.process_time() - began_s, 2)


if __name__ == "__main__":
    print(json.dumps({"row": "manifests", **row(quick=False)}))
