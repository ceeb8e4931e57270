"""Restore: whatever a run did to a target, undone when a session of the run ends, however it ends."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tools.targets.target import Target

__all__ = ["Restorable", "restore_baseline"]


@runtime_checkable
class Restorable(Protocol):
    """A target on which a run leaves something behind unless it is told to clean up."""

    def restore(self) -> tuple[str, ...]:
        """Put back what was changed; what that was, a clause each. Doing so twice does nothing."""
        ...


def restore_baseline(target: Target) -> tuple[str, ...]:
    """Leave `target` as the run found it: what had to be put back, a clause each.

    A target that a run launches itself, as the bundled one, serves nobody else: its processes are ended and that is all
    there is. One that serves already (a live change of a knob) has to put the baseline's values back here.
    """
    return target.restore() if isinstance(target, Restorable) else ()
