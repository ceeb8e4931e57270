"""Expansion: what Compose, Kubernetes or Helm put in the place of variables before anyone else reads a text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.manifests.view import View

__all__ = ["COMPOSE", "KUBERNETES", "Expansion"]


@dataclass(frozen=True)
class Expansion:
    """`foreign` matches what is replaced (group 1) and what only looks like it; `doubled`: `$$` means one `$`."""

    foreign: re.Pattern[str]
    doubled: bool

    def read(self, view: View) -> View:
        marked = view.marked(self.foreign)
        return marked.unescaped("$$") if self.doubled else marked

    def escape(self, text: str) -> str:
        """`text` so that nothing in it is replaced."""
        return text.replace("$", "$$") if self.doubled else text


COMPOSE = Expansion(re.compile(r"\$\$|(\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*)"), doubled=True)
# Helm values too: what they render is read by Kubernetes, and a template in them by Helm.
KUBERNETES = Expansion(re.compile(r"\$\$|(\$\([A-Za-z_][A-Za-z0-9_.-]*\)|\{\{.*?\}\})", re.DOTALL), doubled=True)
