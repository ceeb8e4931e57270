"""LengthSpec: how many tokens, drawn from a uniform or a clipped log-normal distribution."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["LengthSpec"]


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

    def draw(self, random: Random) -> int:
        """One length in tokens; takes exactly one number from `random`, whatever the distribution."""
        u = random.random()
        if self.mean is None or self.std is None:
            return self.min + int(u * (self.max - self.min + 1))
        variance = math.log1p((self.std / self.mean) ** 2)
        location = math.log(self.mean) - variance / 2
        # random() may be exactly 0, where the normal quantile is minus infinity.
        z = NormalDist().inv_cdf(max(u, 2.0**-54))
        return min(max(round(math.exp(location + math.sqrt(variance) * z)), self.min), self.max)
