"""CommandLine: what an owner's deployment says of an engine, and the knobs in it, by the engine's table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

from tools.targets.drivers.driver import Start
from tools.targets.engine_name import EngineName
from tools.targets.knobs import Config, Knob, KnobSpace, Value
from tools.targets.spec import ServerSpec
from tools.targets.tables import KnobTable, table_for

__all__ = ["CommandLine"]


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """The owner's words, with the knobs that the deployment's config names."""

    engine: EngineName
    spec: ServerSpec
    names: frozenset[str]

    @cached_property
    def table(self) -> KnobTable:
        """The part of the engine's table that `names` span.

        Raises:
            KnobError: a name that the engine has no knob for.
        """
        return table_for(self.engine).only(self.names)

    def start(self, words: Sequence[str], environment: Mapping[str, str], config: Config) -> Start:
        """`words` and `environment`, then the owner's own, with `config` said in them.

        Raises:
            KnobError: a value that its knob can't take.
        """
        said = self.table.command(self.spec.arguments, self.spec.environment, dict(config.values))
        return Start([*words, *said.arguments], {**environment, **said.environment})

    def read(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        """The knobs of `names` that `words` and `environment` set."""
        return dict(self.table.read(words, environment).values)

    @cached_property
    def reported_as(self) -> dict[str, str]:
        """What each knob is called in the server's own word on its config."""
        return {name: row.effective or name for name, row in self.table.rows.items()}

    def set_by(self, config: Config) -> dict[str, Value]:
        """Every knob that the owner's words set, whether the deployment's config names it or not, and `config`."""
        own = table_for(self.engine).read(self.spec.arguments, self.spec.environment).values
        return {**own, **config.values}

    def says(self, *parts: str) -> bool:
        """Whether one of the owner's words holds any of `parts`: what no knob stands for may still matter."""
        return any(part in word for word in self.spec.arguments for part in parts)

    def narrowed(self, space: KnobSpace, bounds: Mapping[str, tuple[float, float]]) -> KnobSpace:
        """`space` within `bounds`, where something is left of a knob's range then."""
        return KnobSpace({knob.name: _within(knob, bounds.get(knob.name)) for knob in space})


def _within(knob: Knob, bounds: tuple[float, float] | None) -> Knob:
    if bounds is None or knob.low is None or knob.high is None:
        return knob
    low, high = max(knob.low, bounds[0]), min(knob.high, bounds[1])
    return dataclasses.replace(knob, low=low, high=high) if low < high else knob
