"""Engines: what playbooks may name of engines other than the bundled one, whose knobs its own target tells.

The knobs are those of the tables in `tools.targets.tables`, at the newest version that they know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from tools.targets.engine_name import EngineName
from tools.targets.knobs import KnobSpace
from tools.targets.tables import table_for

__all__ = ["FOREIGN", "EngineName"]

FOREIGN: Mapping[EngineName, KnobSpace] = {
    engine: table_for(engine).space for engine in get_args(EngineName) if engine != "bundled"
}
