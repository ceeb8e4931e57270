"""Live knobs: which changes need no relaunch, and the order of trials that needs the fewest."""

from __future__ import annotations

from collections.abc import Sequence

from tools.targets.knobs import Config, KnobSpace

__all__ = ["changes_live", "fewest_relaunches"]


def changes_live(knobs: KnobSpace, standing: Config, wanted: Config) -> bool:
    """Whether a server that runs `standing` can be brought to `wanted` without a relaunch.

    A knob that `knobs` doesn't know can't be changed live.
    """
    return all(name in knobs.knobs and knobs[name].live for name in standing.diff(wanted))


def fewest_relaunches(knobs: KnobSpace, standing: Config | None, wanted: Sequence[Config]) -> list[int]:
    """Places of `wanted` in an order that relaunches no more often than any other; the given order where that is free.

    Configs that differ only in live knobs come one after the other, those that `standing` can be brought to first.
    """
    groups: list[list[int]] = []
    for place, config in enumerate(wanted):
        same = next((group for group in groups if changes_live(knobs, wanted[group[0]], config)), None)
        if same is None:
            groups.append([place])
        else:
            same.append(place)
    if standing is not None:
        groups.sort(key=lambda group: not changes_live(knobs, standing, wanted[group[0]]))
    return [place for group in groups for place in group]
