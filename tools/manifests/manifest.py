"""Manifest: a file that people deploy from, with the engines' commands in it, edited by splice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import yaml

from tools.errors import UserError
from tools.manifests.compose import compose_sites
from tools.manifests.containers import container_sites, kustomization_sites
from tools.manifests.env_file import env_file_sites, is_env_file
from tools.manifests.find import Surroundings, shell_sites
from tools.manifests.residue import plain_residue, yaml_residue
from tools.manifests.shell_words import UnclosedQuote
from tools.manifests.site import CommandSite
from tools.manifests.splice import spliced
from tools.manifests.systemd import systemd_sites
from tools.manifests.view import whole_file
from tools.manifests.yaml_text import YamlText, scalar_text
from tools.manifests.yaml_variables import NoVariables
from tools.targets.tables.word_edit import WordEdit, edited

__all__ = ["Format", "Manifest", "read_manifest"]

Format = Literal["deployment", "helm", "kustomize", "kubernetes", "compose", "env", "systemd", "shell"]

_MAX_BYTES = 1 << 20
_YAML_FORMATS = frozenset({"deployment", "helm", "kustomize", "kubernetes", "compose"})
_SHELL_NAMES = frozenset({".sh", ".bash"})
_UNIT_NAMES = frozenset({".service", ".conf"})
_YAML_NAMES = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True)
class Manifest:
    """A file as it stands, line ends included, and the sites in it, in their order."""

    path: Path
    text: str
    format: Format
    sites: tuple[CommandSite, ...] = field(repr=False)

    def site(self, where: str | None = None) -> CommandSite:
        """The site at `where`, or the only one.

        Raises:
            UserError: there is none, or several and none was named.
        """
        known = ", ".join(site.where for site in self.sites)
        if not self.sites:
            raise UserError(f"{self.path}: expected an engine's command (vllm serve, llama-server, ...), found none")
        found = [site for site in self.sites if where in (None, site.where)]
        if not found:
            raise UserError(f"{self.path}: no engine's command stands at {where}; there is {known}")
        if len(found) > 1:
            raise UserError(f"{self.path}: {len(found)} engines' commands stand here; name one: {known}")
        return found[0]

    def edited(self, site: CommandSite, edits: Sequence[WordEdit]) -> str:
        """The file's new text with `edits` (whose places are those of `site.words`) done; nothing is written.

        Raises:
            UserError: a word that can't be edited where it stands, or, for whatever reason, a result that reads as
                anything but the planned words and variables with all else as before.
        """
        where = f"{self.path}, {site.where}"
        placed = site.placed(edits)
        try:
            text = spliced(self.text, site.splices(placed))
            words, environment = edited(site.words, site.environment, placed)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from None
        if not self._is_only(site, words, environment, text):
            raise UserError(
                f"{where}: the edit would change more than was planned, or can't be written there; nothing was "
                "written; edit it by hand"
            )
        return text

    def _is_only(self, site: CommandSite, words: Sequence[str], environment: Mapping[str, str], text: str) -> bool:
        """Whether `text`, read anew, has these words and variables at the site, and all else as it is here."""
        after = read_manifest(self.path, text)
        if len(after.sites) != len(self.sites) or after.format != self.format:
            return False
        number = self.sites.index(site)
        new = after.sites[number]
        others = zip(self.sites, after.sites, strict=True)
        return (
            (new.where, new.words, new.environment, new.opaque) == (site.where, words, environment, site.opaque)
            and all(_same(mine, its, self.format) for place, (mine, its) in enumerate(others) if place != number)
            and self._residue(site) == after._residue(new)
        )

    def _residue(self, site: CommandSite) -> object:
        """All that isn't the site: what must be the same after an edit."""
        extents = [extent for chunk in site.chunks for extent in chunk.part.extents()]
        extents += site.variables.extents() if site.variables else []
        if self.format in _YAML_FORMATS:
            return yaml_residue(self.text, extents)
        return plain_residue(self.text, extents)


def _same(mine: CommandSite, theirs: CommandSite, format_: Format) -> bool:
    """Whether an edit of another site left this one alone; sites of an env file share its variables."""
    if format_ == "env":
        return mine.where == theirs.where
    return mine == theirs


def read_manifest(path: Path, text: str | None = None) -> Manifest:
    """Read `path`, or `text` as if it stood there.

    Raises:
        UserError: no such file, not UTF-8, more than 1 MiB; YAML that isn't valid, such as a chart's template; a shell
            script whose quotes don't close. The message names the line.
    """
    text = _read(path) if text is None else text
    if text.startswith("\ufeff"):
        raise UserError(f"{path}: expected UTF-8 without a byte order mark, found one; save it without")
    format_, sites = _recognised(path, text)
    return Manifest(path, text, format_, tuple(_told_apart(sites)))


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: expected a manifest, found none that can be read: {error.strerror}") from None
    if len(raw) > _MAX_BYTES:
        raise UserError(f"{path}: expected at most {_MAX_BYTES} bytes, found {len(raw)}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8, found byte 0x{raw[error.start]:02x} at {error.start}") from None


def _recognised(path: Path, text: str) -> tuple[Format, Iterator[CommandSite]]:
    view = whole_file(text)
    suffix = path.suffix.lower()
    if suffix in _SHELL_NAMES or text.startswith("#!"):
        return "shell", _script(path, text)
    if suffix in _UNIT_NAMES or re.search(r"^\[Service\][ \t]*\r?$", text, re.MULTILINE):
        return "systemd", systemd_sites(path, view)
    if suffix not in _YAML_NAMES:
        if is_env_file(text):
            return "env", env_file_sites(path.name, view)
        return "shell", _script(path, text)
    document = YamlText.read(path, view)
    return _of_yaml(path, document)


def _of_yaml(path: Path, text: YamlText) -> tuple[Format, Iterator[CommandSite]]:
    tops = text.documents
    kinds = {scalar_text(text.get(top, "kind")) for top in tops} - {None}
    if "Kustomization" in kinds:
        return "kustomize", kustomization_sites(path, text)
    if any(isinstance(top, yaml.SequenceNode) for top in tops):
        return "kustomize", container_sites(text)
    if any(text.get(top, "apiVersion") is not None for top in tops) and kinds:
        return "kubernetes", container_sites(text)
    if any(isinstance(text.get(top, "services"), yaml.MappingNode) for top in tops):
        return "compose", compose_sites(path, text)
    if any(text.get(top, "target") is not None and text.get(top, "config") is not None for top in tops):
        return "deployment", iter(())
    return "helm", container_sites(text)


def _script(path: Path, text: str) -> Iterator[CommandSite]:
    if "\r\n" in text:
        raise UserError(f"{path}: lines end with CR LF, which a shell takes for part of the words; save it with LF")
    view = whole_file(text)
    try:
        yield from shell_sites(view, Surroundings("script", NoVariables("this is a script")))
    except UnclosedQuote as error:
        line = text.count("\n", 0, error.at) + 1
        raise UserError(f"{path}, line {line}: {error}; close it") from None


def _told_apart(sites: Iterator[CommandSite]) -> Iterator[CommandSite]:
    """Each with a place of its own: the second at one place gets ` #2`."""
    seen: Counter[str] = Counter()
    for site in sites:
        seen[site.where] += 1
        number = seen[site.where]
        yield site if number == 1 else replace(site, where=f"{site.where} #{number}")
