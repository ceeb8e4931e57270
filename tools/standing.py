"""Standing: a deployment's config as it stands in a manifest, read and edited by its engine's knob table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.deployment import Deployment, DeploymentFile
from tools.errors import UserError
from tools.manifests import CommandSite, Manifest, read_manifest
from tools.targets.knobs import Knob, KnobError, Value
from tools.targets.spec import engine_of
from tools.targets.tables import KnobTable, ReadBack, table_for
from tools.targets.tables.value_word import word_of
from tools.targets.tables.word_edit import SetVariable, WordEdit

__all__ = ["Standing", "agreed_manifest", "version_of_image"]

_RELEASE = re.compile(r":(?:v|[a-z-]*-?(?=b\d))?(?P<release>\d+\.\d+(?:\.\d+)*|b\d+)")


@dataclass(frozen=True)
class Standing:
    """One command of a manifest, and the knobs that it sets."""

    manifest: Manifest
    site: CommandSite
    table: KnobTable

    @classmethod
    def of(cls, deployment: Deployment, path: Path, text: str | None = None) -> Standing:
        """Where `deployment` says that its config stands.

        Args:
            path: of the manifest.
            text: its content, where it isn't to be read from there.

        Raises:
            UserError: no manifest is named, or its engine's flags are unknown; no such file; no command of the engine,
                or several and none of them named.
        """
        ref, engine = deployment.manifest, engine_of(deployment.target)
        if ref is None:
            raise UserError(f"deployment {deployment.name}: expected manifest:, found none")
        if engine is None:
            raise UserError(
                f"{path}: expected the manifest of an engine whose flags are known, found a target of kind "
                f"{deployment.target.kind} that is like none; remove manifest:"
            )
        manifest = read_manifest(path, text)
        site = manifest.site(ref.site)
        if site.engine != engine:
            raise UserError(f"{path}: expected a command of {engine} at {site.where}, found one of {site.engine}")
        return cls(manifest, site, table_for(engine, version_of_image(site.image)))

    def to_json(self) -> dict[str, str]:
        """The manifest's path and text, for the ledger."""
        return {"file": str(self.manifest.path), "text": self.manifest.text}

    @property
    def place(self) -> str:
        """The manifest and the command in it, for people."""
        return f"{self.manifest.path}, {self.site.where}"

    @property
    def read(self) -> ReadBack:
        """The knobs that the command sets, and its words that are none.

        Raises:
            UserError: a value that its knob can't take.
        """
        try:
            return self.table.read(self.site.arguments, self.site.environment)
        except KnobError as refusal:
            raise UserError(f"{self.place}: {refusal}") from None

    def changed(self, changes: Mapping[str, Value | None]) -> str:
        """The manifest's text with knobs changed; None takes one out, so that the engine's default holds.

        Raises:
            UserError: a value that can't be edited there, such as one that a template computes.
        """
        if not changes:
            return self.manifest.text
        try:
            edits = self._edits(changes)
        except KnobError as refusal:
            raise UserError(f"{self.place}: {refusal}") from None
        return self.manifest.edited(self.site, edits)

    def _edits(self, changes: Mapping[str, Value | None]) -> tuple[WordEdit, ...]:
        if self.site.words:
            edits = self.table.edits(self.site.arguments, self.site.environment, changes)
            return self.site.for_words(edits)
        return tuple(self._variable(name, value) for name, value in changes.items())  # a file of variables alone

    def _variable(self, name: str, value: Value | None) -> SetVariable:
        _, row = self.table.space[name], self.table.rows[name]
        if not row.variable:
            raise KnobError(f"knob {name}: {self.table.engine} has no variable for it, and no flag stands here")
        return SetVariable(row.variable, None if value is None else word_of(row, value))

    def with_text(self, text: str) -> Standing:
        """The same command in another text of the manifest."""
        manifest = read_manifest(self.manifest.path, text)
        return replace(self, manifest=manifest, site=manifest.site(self.site.where))

    def another(self, name: str, value: Value) -> Value:
        """Some other value than `value` that the knob `name` can take."""
        return _another(self.table.space[name], value)

    def fixed(self, name: str, value: Value) -> str:
        """Why the knob `name`, which is `value`, can't be changed here; empty where it can. Nothing is written."""
        try:
            self.changed({name: self.another(name, value)})
        except UserError as refusal:
            return str(refusal)
        return ""

    def disagreements(self, config: Mapping[str, Value]) -> Iterator[str]:
        """Where `config` and the manifest don't say the same, a sentence each."""
        stands = self.read.values
        place = self.place
        for name in sorted(config.keys() | stands.keys()):
            row = self.table.rows.get(name)
            if name not in config:
                yield f"config: doesn't name {name}, {place} has {json.dumps(stands[name])}"
            elif row is None:
                yield f"config: {name} is no knob of {self.table.engine}, so {place} can't have it"
            elif name in stands:
                if not _same(config[name], stands[name]):
                    yield f"config: {name} is {json.dumps(config[name])}, {place} has {json.dumps(stands[name])}"
            elif not (row.is_silent(config[name]) or _same(config[name], row.default)):
                usual = "the engine's choice" if row.default is None else f"the engine's {json.dumps(row.default)}"
                yield f"config: {name} is {json.dumps(config[name])}, {place} leaves it at {usual}"


def version_of_image(image: str) -> str | None:
    """The engine's release that the tag of a container image names (`vllm/vllm-openai:v0.11.0`), if it does."""
    found = _RELEASE.search(image)
    return found["release"] if found else None


def agreed_manifest(file: DeploymentFile) -> Standing | None:
    """The manifest of the deployment in `file`, which has to say what its config says; None where it names none.

    Raises:
        UserError: as `Standing.of`; a path that leads over a link; or a knob with two values, all of them named;
            a managed one that can't be edited there.
    """
    deployment = file.deployment
    if deployment.manifest is None:
        return None
    path = Path(deployment.manifest.beside(file.path.as_posix()))
    if path.resolve() != path:
        raise UserError(f"{path}: expected the manifest itself, found a link to {path.resolve()}; name that")
    standing = Standing.of(deployment, path)
    if differ := list(standing.disagreements(deployment.config)):
        raise UserError(
            "\n".join(
                [
                    f"{file.path}: config: and the manifest have to say the same before either is changed",
                    *(f"  {each}" for each in differ),
                    "  edit one of the two, or import the manifest again: autotune import --force",
                ]
            )
        )
    for name in sorted(file.managed & deployment.config.keys()):
        if fixed := standing.fixed(name, deployment.config[name]):
            raise UserError(f"{file.path}: config: {name} is managed, and its manifest can't follow: {fixed}")
    return standing


def _another(knob: Knob, value: Value) -> Value:
    if knob.kind == "bool":
        return not value
    if knob.kind == "choice":
        return next(choice for choice in knob.choices if not _same(choice, value))
    assert knob.low is not None and knob.high is not None
    other = knob.low if value != knob.low else knob.high
    return int(other) if knob.kind == "int" else other


def _same(one: Value, other: Value | None) -> bool:
    return type(one) is type(other) and one == other
