"""Which counters a target's engine exports at all: what it never does can't be asked for, nor held against it."""

from __future__ import annotations

from tools.targets.spec import BundledSpec, CommandSpec, ServerSpec
from tools.targets.vocabulary import exported

__all__ = ["exports_of"]


def exports_of(spec: BundledSpec | ServerSpec | CommandSpec) -> frozenset[str]:
    """Names of `tools.targets.target.Counters` that a server of this kind is known to export."""
    if isinstance(spec, CommandSpec):
        return frozenset(spec.metrics)
    return exported(spec.kind)
