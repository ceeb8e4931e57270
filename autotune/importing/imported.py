"""Imported: an engine's command taken apart into what a deployment says, and what it has no place for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agents.playbook import load_playbook, playbook_names
from autotune.importing.dialect import DIALECTS, Dialect
from autotune.importing.sorted_words import LeftOut, SortedWords, sort_variables, sort_words
from autotune.importing.source import Source
from autotune.importing.wrapper import unwrapped
from tools.errors import UserError
from tools.manifest_ref import ManifestRef
from tools.repo import root_of
from tools.standing import Standing, version_of_image
from tools.targets.engine_name import EngineName
from tools.targets.knobs import KnobError, Value
from tools.targets.tables import KnobTable, table_for
from tools.targets.tables.row import KnobRow
from tools.targets.tables.value_word import is_unexpanded

__all__ = ["Imported", "ImportedKnob", "LeftOut", "imported"]


@dataclass(frozen=True, slots=True)
class ImportedKnob:
    """One line of `config:`."""

    name: str
    value: Value
    found: bool
    "False: it isn't in the source, and this is what the engine does without it."
    managed: bool
    "Whether a commit may change it."


@dataclass(frozen=True)
class Imported:
    """What a deployment says of a command."""

    told: str
    engine: EngineName
    version: str | None
    "The engine's, where the image names it."
    image: str
    name: str
    model: str
    model_here: bool
    "Whether there is such a folder or file beside the deployment."
    command: tuple[str, ...]
    "Empty: the engine's own."
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    served_name: str | None
    device: str
    cpus: str | None
    numa_node: int | None
    knobs: tuple[ImportedKnob, ...]
    unsaid: Mapping[str, Value]
    "Knobs worth trying that the engine sets by itself, with what it commonly sets them to."
    manifest: ManifestRef | None
    table: KnobTable
    "By which it was read."
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]

    @property
    def config(self) -> dict[str, Value]:
        return {knob.name: knob.value for knob in self.knobs}


def imported(source: Source, output: Path, model: str | None = None) -> Imported:
    """What `source` says, for a deployment at `output`. Nothing is run, and nothing but the source is read.

    Args:
        model: a folder, a file or a name in place of the source's own.

    Raises:
        UserError: an engine that isn't known, a value that its knob can't take, or no model anywhere.
    """
    site = source.site
    if site.engine not in DIALECTS:
        raise UserError(
            f"{source.told}: expected a command of {', '.join(DIALECTS)}, found one of the bundled engine, whose knobs "
            "stand in a deployment by their own names already; begin with configs/demo/deployment.yaml"
        )
    dialect, version = DIALECTS[site.engine], version_of_image(site.image)
    table = table_for(site.engine, version)
    try:
        read = table.read(site.arguments, site.environment)
    except KnobError as refusal:
        raise UserError(f"{source.told}: {refusal}; mend that first") from None
    found = SortedWords()
    sort_words(read.rest, dialect, source.unknown, found)
    sort_variables(read.environment, dialect, found, elsewhere=source.elsewhere)
    found.left_out += [LeftOut(name, f"comes from {origin}") for name, origin in site.opaque.items()]
    command, notes = _command(source, dialect, found)
    wrapper = unwrapped(source.wrapper)
    if model is None and (model := found.fields.get("model") or found.fields.get("hub")) is None:
        raise UserError(f"{source.told}: expected a model in it, found none written out; name one with --model")
    ref, why_not = _manifest(source, output)
    notes += [why_not] if why_not else []
    standing = Standing(source.manifest, site, table) if ref is not None else None
    device = _device(site.engine, site.image, read.values, found)
    knobs, unsaid, fixed = _knobs(table, read.values, device, standing)
    notes += fixed
    served_name = found.fields.get("served_name")
    return Imported(
        told=source.told,
        engine=site.engine,
        version=version,
        image=site.image,
        name=_slug(served_name or model),
        model=model,
        model_here=(output.parent / Path(model).expanduser()).exists(),
        command=command,
        arguments=tuple(found.own),
        environment=found.environment,
        served_name=served_name,
        device=device,
        knobs=tuple(knobs),
        unsaid=unsaid,
        manifest=ref,
        table=table,
        cpus=wrapper.cpus,
        numa_node=wrapper.numa_node,
        left_out=(*found.left_out, *wrapper.left_out),
        notes=tuple(notes),
    )


def _knobs(
    table: KnobTable, read: Mapping[str, Value], device: str, standing: Standing | None
) -> tuple[list[ImportedKnob], dict[str, Value], list[str]]:
    """The lines of `config:`; what is worth trying but can't stand there, since only the engine knows its value; and
    what is to be said of those that the manifest doesn't let anybody change."""
    tried = _tried(table.engine)
    rows = [row for name, row in table.rows.items() if name in read or (name in tried and _fits(row, device))]
    values = dict(read)
    unsaid: dict[str, Value] = {}
    for row in rows:
        if row.name in read or not _changeable(row):
            continue
        neutral = row.default if row.default is not None else row.silence
        if neutral is None or row.only_when.keys() - values.keys():
            unsaid[row.name] = row.knob.default
        else:
            values[row.name] = neutral
    knobs = list[ImportedKnob]()
    fixed: dict[str, list[str]] = {}
    for row in rows:
        if row.name in values:
            value = values[row.name]
            managed = row.name in tried and _changeable(row)
            if managed and standing is not None and (why := standing.fixed(row.name, value)):
                managed = False
                fixed.setdefault(why.removeprefix(f"{standing.place}: "), []).append(row.name)
            knobs.append(ImportedKnob(row.name, value, row.name in read, managed))
    told = [f"not managed, for the source can't follow: {', '.join(names)} ({why})" for why, names in fixed.items()]
    return knobs, unsaid, told


def _changeable(row: KnobRow) -> bool:
    return row.tunable and row.outputs == "lossless"


def _fits(row: KnobRow, device: str) -> bool:
    """Whether a knob that isn't in the source is one of the device's."""
    return not row.name.startswith("gpu_" if device == "cpu" else "cpu_")


@cache
def _tried(engine: str) -> frozenset[str]:
    """The knobs that some shipped playbook tries with `engine`."""
    hypotheses = (each for name in playbook_names() for each in load_playbook(name).hypotheses)
    return frozenset(knob for each in hypotheses if engine in each.engines for knob in each.attempt)


def _command(source: Source, dialect: Dialect, found: SortedWords) -> tuple[tuple[str, ...], list[str]]:
    """The program as a deployment names it, empty for the engine's own; and what is to be said of it."""
    site = source.site
    words = site.words[: site.program]
    image = f"the image {site.image}" if site.image else "a container"
    if source.elsewhere:
        return (), [f"it runs in {image} there; trials here run `{' '.join(dialect.command)}` on PATH"]
    if any(word in source.unknown or is_unexpanded(word) for word in words):
        found.left_out.append(LeftOut(" ".join(words), "the program's value is filled in elsewhere"))
        return (), []
    if words[-1:] == ("serve",):
        words = words[:-1]
    if words[-1:] == ("vllm.entrypoints.openai.api_server",):
        words = (*words[:-1], "vllm.entrypoints.cli.main")  # what `vllm` is: the same server by its newer door
    return () if words == dialect.command else words, []


def _manifest(source: Source, output: Path) -> tuple[ManifestRef | None, str]:
    """Where the deployment points back to, or why it can't."""
    if source.file is None:
        return None, ""
    file, folder = source.file.absolute(), output.absolute().parent
    try:
        root, other = root_of(file), root_of(folder)
    except UserError:
        return None, "no manifest: a change of it is committed with this file's only in a git repository"
    if root != other:
        return None, f"no manifest: {file.name} is in another git repository than this file"
    if file.resolve() != Path(os.path.normpath(file)):
        return None, f"no manifest: {file.name} is reached over a link; import the file itself"
    several = len(source.manifest.sites) > 1
    relative = Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    return ManifestRef(file=relative, site=source.site.where if several else None), ""


def _device(engine: EngineName, image: str, config: Mapping[str, Value], found: SortedWords) -> str:
    """Where it computes: what the source says, or what the engine is mostly used on."""
    spoken = [image, *found.own, *found.environment]
    if engine == "llamacpp":
        layers = config.get("gpu_layers", 0)
        return "cuda" if "cuda" in image or (isinstance(layers, int) and layers > 0) else "cpu"
    on_cpu = any(re.search(r"(?:^|[^a-z])cpu(?:[^a-z]|$)|VLLM_CPU_", word) for word in spoken)
    return "cpu" if on_cpu or "cpu_kvcache_space" in config else "cuda"


def _slug(name: str) -> str:
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1].lower().removesuffix(".gguf")
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:63].rstrip("-") or "imported"
