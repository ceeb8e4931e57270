"""The owner's knob table of a command: a YAML file beside the deployment, or rows in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tools.manifests.yaml_file import YamlFile
from tools.targets.tables import KnobTable, parse_table

__all__ = ["owned_table"]


def owned_table(knobs: str | tuple[dict[str, Any], ...], folder: Path) -> KnobTable:
    """
    Args:
        knobs: rows as the shipped tables have them; or the path, relative to `folder`, of a file that has them under
            `knobs:`, and may say `underscores`, `equals` and `forbidden` as those do.

    Raises:
        UserError: no such file, or rows that aren't right; the message names the place.
    """
    place, data = "target.knobs", {"knobs": [*knobs]} if not isinstance(knobs, str) else {}
    if isinstance(knobs, str):
        place = str(folder / Path(knobs).expanduser())
        data = YamlFile.read(Path(place)).data
    whole = {"engine": "command", "about": "the owner's own", "known": ["0"], **data}
    return parse_table(yaml.safe_dump(whole, sort_keys=False), place).at(None)
