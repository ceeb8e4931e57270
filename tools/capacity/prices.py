"""Prices: what an hour of each kind of replica costs, and what a day and a million tokens come to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile

__all__ = ["Cost", "Hardware", "Prices", "read_prices"]


class Hardware(BaseModel):
    """One choice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    price_per_hour: float = Field(ge=0, allow_inf_nan=False)
    "Of one GPU (or other unit of hardware)."
    gpus_per_replica: int = Field(default=1, ge=1, le=1024)
    curve: Path | None = None
    """Service curve of one replica on it, as `autotune calibrate --out` writes it; relative to the price list. Without
    it, the --curve of the same name."""

    @property
    def replica_per_hour(self) -> float:
        return self.price_per_hour * self.gpus_per_replica


class Prices(BaseModel):
    """A price list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(min_length=1, max_length=8)
    hardware: tuple[Hardware, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Prices:
        names = [hardware.name for hardware in self.hardware]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"expected each name once, found several: {', '.join(twice)}")
        return self


@dataclass(frozen=True)
class Cost:
    """What one choice comes to. A choice that can't keep the promise has a reason instead of numbers."""

    hardware: str
    why_not: str | None = None
    peak_replicas: int | None = None
    gpus: int | None = None
    per_day_static: float | None = None
    "The peak's replicas, failures included, all day."
    per_day: float | None = None
    "Replicas by interval, as the plan has them."
    per_million_tokens: float | None = None
    "By the plan; prompt (uncached) and output tokens together."
    per_million_output_tokens: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def read_prices(path: Path) -> Prices:
    """The price list at `path`, its curves' paths made absolute.

    Raises:
        UserError: no such file, or not a price list.
    """
    try:
        prices = Prices.model_validate(YamlFile.read(path).data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'the file'}: {p['msg']}" for p in error.errors()[:5])
        raise UserError(
            f"{path}: not a price list: {problems}. Expected currency: and hardware: with name, price_per_hour and "
            "curve: (see configs/prices.example.yaml)"
        ) from None
    hardware = [h.model_copy(update={"curve": h.curve and path.parent / h.curve}) for h in prices.hardware]
    return prices.model_copy(update={"hardware": tuple(hardware)})
