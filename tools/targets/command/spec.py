"""CommandSpec: any engine, started by a command of the owner's and read where the owner says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.targets.command.counting import CounterName, Metric
from tools.targets.command.place import Place
from tools.targets.command.template import PLACEHOLDERS, Template, unknown_placeholders
from tools.targets.engine_name import EngineName
from tools.targets.environment import is_secret

__all__ = ["COMMAND_LINE", "CommandSpec", "KvCache"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
COMMAND_LINE = "command_line"
_RESET = re.compile(r"none|POST (?P<path>/\S*)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"expected a variable's name, found {name!r}")
    if is_secret(name):
        raise ValueError(
            f"{name} is called like a secret, and this file is no place for one; let the command be a script of your "
            "own that fetches it"
        )
    return name


def _variables_value(value: str) -> str:
    known = {name: what for name, what in PLACEHOLDERS.items() if name != "knobs"}
    if unknown := unknown_placeholders(value, known):
        raise ValueError(unknown)
    return value


class KvCache(_Strict):
    """Which knob sizes the KV cache, and what one more of it takes."""

    knob: str
    bytes_each: int = Field(gt=0)
    multiple_of: int = Field(default=1, gt=0)
    "Where the engine counts in blocks."


class CommandSpec(_Strict):
    """How any engine is started, watched and read."""

    kind: Literal["command"]
    command: str | tuple[str, ...]
    """The program and its arguments, with {model}, {host}, {port}, {name}, {python} and, as a word of its own, {knobs}.
    A text is split into words; no shell runs it. A program with a slash in it is taken relative to the deployment."""
    environment: dict[Annotated[str, AfterValidator(_variable)], Annotated[str, AfterValidator(_variables_value)]] = {}
    "Variables of its own, with the same placeholders but `{knobs}`; no secrets, for they stand in a file."
    knobs: str | tuple[dict[str, Any], ...]
    "Rows of a knob table, or the path of a YAML file that has them under `knobs:`, relative to the deployment."
    ready: str = Field(default="/health", pattern=r"^/\S*$")
    "GET answers 200 once requests are taken."
    reports: str | dict[str, str]
    """Where the server tells its config: `/server_info#config`, where knobs stand by their names; or a place for each
    knob; or `command_line`: this engine tells nobody, and the operating system's record of its command is believed."""
    serves: str | None = None
    """Where it tells the path of its model, as `/v1/models#data.0.root`. Without one the command line is believed, and
    /v1/models has to list the served name."""
    version: str | None = None
    "Where it tells its version."
    metrics_path: str = Field(default="/metrics", pattern=r"^/\S*$")
    metrics: dict[CounterName, str | tuple[str, ...]] = {}
    """Which metric is which counter; of several names the first that the server has, as engines rename them. None: this
    engine counts nothing."""
    reset: str
    "What empties its prefix cache: `POST /reset_prefix_cache`; `none`: it keeps none between requests."
    like: EngineName | None = None
    "The engine whose playbooks apply, where knobs are called alike."
    kv_cache: KvCache | None = None
    served_name: str | None = None
    "The name that clients send as `model`; the model's own by default."
    cpus: str | None = None
    "Processors that it may run on: `0-3,8`."
    numa_node: int | None = Field(default=None, ge=0)
    "Its memory and, unless `cpus` says otherwise, its processors."

    @field_validator("command")
    @classmethod
    def _is_a_template(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        Template.parse(command)
        return command

    @field_validator("reports")
    @classmethod
    def _are_places(cls, reports: str | dict[str, str]) -> str | dict[str, str]:
        for place in reports.values() if isinstance(reports, Mapping) else (reports,):
            if place != COMMAND_LINE:
                Place.parse(place)
        if isinstance(reports, Mapping) and not reports:
            raise ValueError("expected a place for each knob, found none; `command_line` where the engine tells nobody")
        return reports

    @field_validator("serves", "version")
    @classmethod
    def _is_a_place(cls, place: str | None) -> str | None:
        if place is not None:
            Place.parse(place)
        return place

    @field_validator("metrics")
    @classmethod
    def _are_metrics(cls, metrics: dict[CounterName, Any]) -> dict[CounterName, Any]:
        for names in metrics.values():
            for name in (names,) if isinstance(names, str) else names:
                Metric.parse(name)
        return metrics

    @field_validator("reset")
    @classmethod
    def _is_a_request(cls, reset: str) -> str:
        if not _RESET.fullmatch(reset):
            raise ValueError("expected `POST /path`, or `none` where the engine keeps no prefix cache")
        return reset

    @model_validator(mode="after")
    def _can_be_started(self) -> Self:
        named = self.template.names | Template(tuple(self.environment.values())).names
        if lacking := {"model", "port"} - named:
            told = " and ".join(f"{{{name}}}, {PLACEHOLDERS[name]}" for name in sorted(lacking))
            raise ValueError(f"neither command nor environment has {told}")
        if "name" not in named and self.served_name is None:
            raise ValueError("without {name} in its command the engine chooses its name itself; say it as served_name")
        return self

    @property
    def template(self) -> Template:
        return Template.parse(self.command)

    @property
    def reset_path(self) -> str | None:
        """What to POST to; None where there is nothing to empty."""
        found = _RESET.fullmatch(self.reset)
        return found["path"] if found else None

    def place_of(self, knob: str) -> Place | None:
        """Where the server tells `knob`, of the long form; None where it doesn't."""
        place = self.reports.get(knob) if isinstance(self.reports, Mapping) else None
        return None if place is None or place == COMMAND_LINE else Place.parse(place)

    @property
    def place_of_all(self) -> Place | None:
        """Where the server tells all knobs by their names; None in the other forms."""
        return Place.parse(self.reports) if isinstance(self.reports, str) and self.reports != COMMAND_LINE else None

    @property
    def serves_place(self) -> Place | None:
        return None if self.serves is None else Place.parse(self.serves)

    @property
    def version_place(self) -> Place | None:
        return None if self.version is None else Place.parse(self.version)

    def counted_as(self, counter: CounterName) -> tuple[Metric, ...]:
        """The metrics that may be `counter`, the likeliest first."""
        names = self.metrics.get(counter, ())
        return tuple(Metric.parse(name) for name in ((names,) if isinstance(names, str) else names))
