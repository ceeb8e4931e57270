"""Source: the one command that is imported, and the file that it stands in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError
from tools.manifests import CommandSite, Manifest, read_manifest

__all__ = ["Source", "source_at", "source_of"]

_COMMAND_LINE = Path("the command line")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """An engine's command as somebody wrote it."""

    site: CommandSite
    manifest: Manifest
    file: Path | None
    "None where there is no file to point back to."

    @property
    def told(self) -> str:
        """What it is, for people."""
        return f"{self.file.name} ({self.site.where})" if self.file else "a command line"

    @property
    def unknown(self) -> frozenset[str]:
        """The command's words whose value isn't in the file."""
        return frozenset(self.site.words[at] for at in self.site.computed)

    @property
    def wrapper(self) -> tuple[str, ...]:
        """The words before the engine's own."""
        return next((chunk.part.words[: chunk.start] for chunk in self.site.chunks if chunk.start), ())

    @property
    def elsewhere(self) -> bool:
        """Whether it runs in a container, so that its program and its paths aren't those of this machine."""
        return bool(self.site.image) or self.manifest.format in ("kubernetes", "kustomize", "compose", "helm")


def source_at(file: Path, where: str | None) -> Source:
    """The command at `where` in a manifest, or its only one.

    Raises:
        UserError: no such file, none that can be read, no engine's command, or several to choose from.
    """
    manifest = read_manifest(file)
    if manifest.format == "deployment":
        raise UserError(f"{file}: expected a command or a manifest to import, found a deployment already")
    try:
        site = manifest.site(where)
    except UserError as refusal:
        several = where is None and len(manifest.sites) > 1
        raise UserError(f"{refusal}" + ("; choose with --site" if several else "")) from None
    return Source(site, manifest, file)


def source_of(command: Sequence[str] | str) -> Source:
    """The command whose words, variables before them, are `command`; a text as a person would give it to a shell.

    Raises:
        UserError: no engine's command in it, or several.
    """
    text = command if isinstance(command, str) else " ".join(map(_quoted, command))
    manifest = read_manifest(_COMMAND_LINE, f"#!/bin/sh\n{text}\n")
    return Source(manifest.site(None), manifest, None)


def _quoted(word: str) -> str:
    assigned = _ASSIGNMENT.fullmatch(word)
    return f"{assigned['name']}={shlex.quote(assigned['value'])}" if assigned else shlex.quote(word)
