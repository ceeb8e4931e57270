"""LengthSpec and GapSpec: how many tokens, and how many seconds between turns, as distributions."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["GapSpec", "LengthSpec"]


class LengthSpec(BaseModel):
    """Tokens from `min` to `max`, inclusive. A bare number stands for a fixed length.

    Without `mean` and `std` the draw is uniform. With them it is log-normal with that mean and standard deviation
    (both in tokens, before the clipping to `min` and `max`): lengths in real traffic lean to the left like it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    min: int = Field(ge=1, le=1_000_000)
    max: int = Field(ge=1, le=1_000_000)
    mean: float | None = Field(default=None, gt=0)
    std: float | None = Field(default=None, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"min": value, "max": value}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> LengthSpec:
        if self.min > self.max:
            raise ValueError(f"expected min <= max, found min {self.min} and max {self.max}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("expected both mean and std (log-normal) or neither (uniform)")
        if self.mean is not None and not self.min <= self.mean <= self.max:
            raise ValueError(f"expected a mean from min {self.min} to max {self.max}, found {self.mean:g}")
        return self

    def quantile(self, u: float) -> int:
        """The length below which a share `u` of all draws lies, 0 < u < 1."""
        if self.mean is None or self.std is None:
            return self.min + int(u * (self.max - self.min + 1))
        return min(max(round(_log_normal(self.mean, self.std, u)), self.min), self.max)


class GapSpec(BaseModel):
    """Seconds from an answer's end to the next turn: reading and thinking, or a tool at work. A bare number is fixed.

    Uniform from `min_s` to `max_s`, or with `mean_s` and `std_s` log-normal and clipped, as LengthSpec.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    max_s: float = Field(ge=0, allow_inf_nan=False)
    mean_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    std_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"min_s": value, "max_s": value}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> GapSpec:
        if self.min_s > self.max_s:
            raise ValueError(f"expected min_s <= max_s, found {self.min_s:g} and {self.max_s:g}")
        if (self.mean_s is None) != (self.std_s is None):
            raise ValueError("expected both mean_s and std_s (log-normal) or neither (uniform)")
        if self.mean_s is not None and not self.min_s <= self.mean_s <= self.max_s:
            raise ValueError(f"expected a mean_s from min_s {self.min_s:g} to max_s {self.max_s:g}")
        return self

    def quantile(self, u: float) -> float:
        """The gap below which a share `u` of all draws lies, in seconds, 0 < u < 1."""
        if self.mean_s is None or self.std_s is None:
            return self.min_s + u * (self.max_s - self.min_s)
        return min(max(_log_normal(self.mean_s, self.std_s, u), self.min_s), self.max_s)


def _log_normal(mean: float, std: float, u: float) -> float:
    variance = math.log1p((std / mean) ** 2)
    return math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * NormalDist().inv_cdf(u))
