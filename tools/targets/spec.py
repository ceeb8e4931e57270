"""TargetSpec: what a deployment says of how its engine is started and where it stands. Plain data."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from tools.targets.command.spec import CommandSpec
from tools.targets.engine_name import EngineName
from tools.targets.environment import is_secret
from tools.targets.external.spec import ExternalSpec

__all__ = ["SPECS", "BundledSpec", "CommandSpec", "ExternalSpec", "ServerSpec", "TargetSpec", "engine_of"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BundledSpec(_Strict):
    """This project's own engine, started with this project's own Python."""

    kind: Literal["bundled"] = "bundled"


class ServerSpec(_Strict):
    """An engine whose knobs, endpoints and metrics are known here, started anew for each trial."""

    kind: Literal["vllm", "sglang", "llamacpp"]
    command: tuple[str, ...] = ()
    "The program's first words, as `[/opt/vllm/bin/vllm]`; by default the engine's own name on PATH."
    arguments: tuple[str, ...] = ()
    "The owner's own arguments, no knobs among them, passed as they stand."
    environment: dict[str, str] = {}
    "The owner's own variables; no secrets, for they stand in a file."
    served_name: str | None = None
    "The name that clients send as `model`; the model's own by default."
    cpus: str | None = None
    "Processors that it may run on: `0-3,8`."
    numa_node: int | None = Field(default=None, ge=0)
    "Its memory and, unless `cpus` says otherwise, its processors."

    @field_validator("environment")
    @classmethod
    def _variables(cls, environment: dict[str, str]) -> dict[str, str]:
        for name in environment:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"expected a variable's name, found {name!r}")
            if is_secret(name):
                raise ValueError(
                    f"{name} is called like a secret, and this file is no place for one; let the command be a script "
                    "of your own that fetches it"
                )
        return environment


SPECS: tuple[type[BaseModel], ...] = (BundledSpec, ServerSpec, CommandSpec, ExternalSpec)


def _spelled_out(spec: Any) -> Any:
    """A bare word is short for `{kind: word}`."""
    return {"kind": spec} if isinstance(spec, str) else spec


TargetSpec = Annotated[
    Annotated[BundledSpec | ServerSpec | CommandSpec | ExternalSpec, Field(discriminator="kind")],
    BeforeValidator(_spelled_out),
]
"""`vllm`, or a mapping with `kind` and what that kind takes."""


def engine_of(spec: BundledSpec | ServerSpec | CommandSpec | ExternalSpec) -> EngineName | None:
    """The engine whose knobs go by their names there; None where the owner's knobs are like no engine's."""
    if isinstance(spec, CommandSpec):
        return spec.like
    if isinstance(spec, ExternalSpec):
        return spec.engine
    return spec.kind
