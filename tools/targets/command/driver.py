"""CommandDriver: any engine, by what its owner says of it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from prometheus_client.samples import Sample

from tools.errors import UserError
from tools.profile.physics import ModelFacts
from tools.targets.command.rows import owned_table
from tools.targets.command.spec import COMMAND_LINE, CommandSpec
from tools.targets.command.template import filled_in
from tools.targets.control import ControlClient, ControlError
from tools.targets.drivers.driver import Start
from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value
from tools.targets.tables import KnobTable
from tools.targets.tables.row import KnobRow
from tools.targets.tables.value_word import value_of_json
from tools.targets.target import Counters, MemoryNeed

__all__ = ["CommandDriver"]

_WEIGHTS = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".pth"})
_STARTED = "process_start_time_seconds"
"What Prometheus' own client libraries export."


class CommandDriver:
    """Serves `model` by the command of `spec`."""

    name = "command"

    def __init__(self, model: Path, spec: CommandSpec, names: Collection[str], folder: Path) -> None:
        """
        Args:
            names: the knobs that the deployment's config names.
            folder: of the deployment's file; what the spec names is taken relative to it.

        Raises:
            UserError: a table that can't be read, a knob that it doesn't have, or one that the command sets already.
        """
        self.model = model.absolute()
        self._spec, self._folder = spec, folder
        whole = owned_table(spec.knobs, folder)
        self._table = whole.only(names)
        self.served_as = spec.served_name or (model.stem if model.is_file() else model.name)
        self.ready_path, self.metrics_path = spec.ready, spec.metrics_path if spec.metrics else None
        _require_agreement(spec, whole, frozenset(names))

    @property
    def knobs(self) -> KnobSpace:
        return self._table.space

    def start(self, config: Config, host: str, port: int) -> Start:
        spelled = self._table.spell(config.values)
        values = {"model": str(self.model), "host": host, "port": str(port), "name": self.served_as}
        values["python"] = sys.executable
        program, *words = self._spec.template.filled(values, spelled.arguments)
        environment = {name: filled_in(value, values) for name, value in self._spec.environment.items()}
        return Start([self._program(program), *words], {**environment, **spelled.environment})

    def asked(self, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Value]:
        said = self._table.read(words, environment).values
        silent = {name: value for name, row in self._table.rows.items() if (value := _silence(row)) is not None}
        return {**silent, **said}

    def effective(self, client: ControlClient, log: Path | None) -> dict[str, Value]:
        return {name: self._value(client, name, raw) for name, raw in self._told(client).items() if raw is not None}

    def version(self, client: ControlClient) -> str:
        return str(self._spec.version_place.read(client)) if self._spec.version_place else ""

    def serves(self, client: ControlClient) -> Path:
        if self._spec.serves_place is not None:
            return Path(str(self._spec.serves_place.read(client)))
        listed = client.json("/v1/models").get("data")
        names = [each.get("id") for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
        if self.served_as not in names:
            found = ", ".join(map(str, names)) or "no model"
            raise ControlError(f"{client.base_url}/v1/models: expected {self.served_as}, found {found}")
        return self.model

    def started_at(self, samples: Sequence[Sample]) -> float | None:
        return next((sample.value for sample in samples if sample.name == _STARTED), None)

    def counters(self, samples: Sequence[Sample]) -> Counters:
        found: dict[str, float] = {}
        for counter in self._spec.metrics:
            totals = (metric.total(samples) for metric in self._spec.counted_as(counter))
            if (total := next((total for total in totals if total is not None), None)) is not None:
                found[counter] = total
        return found

    def reset_cache(self, client: ControlClient) -> None:
        if self._spec.reset_path is not None:
            client.post(self._spec.reset_path)

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """`space` with no more `threads` than cores, by their unit, and a KV cache that fits beside the weights."""
        kv = self._spec.kv_cache
        fits = max(0, memory_bytes - self._weights_bytes) // kv.bytes_each if kv else 0

        def limit(knob: Knob) -> Knob:
            if kv and knob.name == kv.knob:
                return _at_most(knob, fits)
            return _at_most(knob, cores) if knob.unit == "threads" else knob

        return KnobSpace({knob.name: limit(knob) for knob in space})

    def memory(self, config: Config) -> MemoryNeed:
        """The model's files and, where the owner says what one more of its knob takes, the KV cache: a lower bound."""
        kv = self._spec.kv_cache
        held = config.values.get(kv.knob) if kv else None
        cache = int(held * kv.bytes_each) if kv and held is not None and not isinstance(held, str) else 0
        return MemoryNeed(self._weights_bytes, cache, 0, 0)

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        """Nothing: in which number format an unknown engine holds what isn't known."""
        return None

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        kv = self._spec.kv_cache
        if kv is None or kv.knob not in config.values:
            raise KnobError(
                f"target {self.name}: which knob sizes its KV cache isn't known; say it as "
                "kv_cache: {knob: ..., bytes_each: ...}, and name the knob under config:"
            )
        return self.knobs.resolve(
            {**config.values, kv.knob: kv_bytes // kv.bytes_each // kv.multiple_of * kv.multiple_of}
        )

    @cached_property
    def _weights_bytes(self) -> int:
        if self.model.is_file():
            return self.model.stat().st_size
        return sum(each.stat().st_size for each in self.model.iterdir() if each.suffix in _WEIGHTS)

    def _program(self, word: str) -> str:
        return str(self._folder / word) if "/" in word else word

    def _told(self, client: ControlClient) -> dict[str, Any]:
        """What the server says of each knob that it tells, as it stands there. Each page is read once."""
        if (whole := self._spec.place_of_all) is not None:
            found = whole.read(client)
            if not isinstance(found, Mapping):
                raise ControlError(
                    f"{client.base_url}{whole.path}: expected knobs by name at {whole}, found {found!r:.80}"
                )
            rows = self._table.rows.values()
            return {row.name: found[at] for row in rows if (at := row.effective or row.name) in found}
        places = {name: place for name in self._table.rows if (place := self._spec.place_of(name)) is not None}
        pages = {path: client.text(path) for path in {place.path for place in places.values()}}
        return {name: place.within(client, pages[place.path]) for name, place in places.items()}

    def _value(self, client: ControlClient, name: str, raw: Any) -> Value:
        try:
            return value_of_json(self._table.rows[name], raw)
        except KnobError as error:
            raise ControlError(f"{client.base_url}: what the server says is in effect can't be: {error}") from error


def _require_agreement(spec: CommandSpec, table: KnobTable, names: Collection[str]) -> None:
    """What a deployment says of its command twice has to be the same thing."""
    words = spec.template.words
    twice = table.read([word for word in words if word != "{knobs}"], spec.environment).values.keys()
    if twice:
        raise UserError(
            f"target: command or environment sets {', '.join(sorted(twice))}, which is a knob; take it out there and "
            "give its value under config:"
        )
    if "{knobs}" not in words and (flags := sorted(name for name in names if table.rows[name].flag)):
        raise UserError(f"target: command has no {{knobs}}, and {', '.join(flags)} are said by flags; add it as a word")
    told = dict.fromkeys(() if isinstance(spec.reports, str) else spec.reports, "reports")
    if spec.kv_cache is not None:
        told[spec.kv_cache.knob] = "kv_cache"
    for name, where in told.items():
        try:
            _ = table.space[name]
        except KnobError as error:
            raise UserError(f"target.{where}: {error}") from None
    if isinstance(spec.reports, Mapping) and (unsaid := sorted(set(names) - spec.reports.keys())):
        raise UserError(
            f"target.reports: expected a place for each knob under config:, found none for {', '.join(unsaid)}; "
            f"`{COMMAND_LINE}` for what the engine doesn't tell"
        )


def _silence(row: KnobRow) -> Value | None:
    """The value that the flag's absence says."""
    return False if row.is_switch and not row.false_flag else row.silence


def _at_most(knob: Knob, most: int) -> Knob:
    """`knob` with no value above `most`; as it is where nothing would be left."""
    if knob.low is None or knob.high is None or not knob.low < most < knob.high:
        return knob
    return dataclasses.replace(knob, high=most)
