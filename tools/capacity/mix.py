"""Mix: what one request asks of a replica, as a table of (uncached prompt tokens, output tokens) pairs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tools.measure.draw import draw
from tools.measure.workload import WorkloadSpec
from tools.service.curve import ServiceCurve

__all__ = ["Mix", "Tokens"]

Tokens = NDArray[np.int64]

_ROWS = 4096
_CV = 1.0


@dataclass(frozen=True)
class Mix:
    """Equally likely pairs. Both arrays have shape (rows,) and hold numbers of at least 1."""

    prompts: Tokens
    "Prompt tokens that no cache holds."
    outputs: Tokens
    source: str
    "Where the lengths come from, in a few words for a reader of the plan."
    turns: float = 1.0
    "Mean requests of a conversation."

    def __post_init__(self) -> None:
        if not 0 < len(self.prompts) == len(self.outputs):
            raise ValueError(f"expected pairs, found {len(self.prompts)} prompts and {len(self.outputs)} outputs")
        if min(self.prompts.min(), self.outputs.min()) < 1:
            raise ValueError("expected lengths of at least 1 token")

    @classmethod
    def of_curve(cls, curve: ServiceCurve) -> Self:
        """Log-normal lengths about the curve's means, standard deviation as large as the mean, independent.

        A guess for want of better: published chat traces have a coefficient of variation of 0.7 to 1.6.
        """
        order = np.random.default_rng(0).permutation(_ROWS)
        prompts = _log_normal(curve.prompt_tokens)
        return cls(prompts, _log_normal(curve.output_tokens)[order], "guessed: log-normal about the curve's means")

    @classmethod
    def of_workload(cls, spec: WorkloadSpec, seed: int = 0) -> Self:
        """The lengths of a workload; of a conversation's later turns the new tokens, as its prefix is cached."""
        skeleton = draw(spec, min(spec.requests, _ROWS), seed, part="capacity", scheduled=False)
        turns = [turn for conversation in skeleton.conversations for turn in conversation.turns]
        return cls(
            np.array([turn.new_tokens for turn in turns], np.int64),
            np.array([turn.output_tokens for turn in turns], np.int64),
            "the workload's lengths, shared prefixes cached",
            len(turns) / len(skeleton.conversations),
        )

    @property
    def mean_prompt(self) -> float:
        return float(self.prompts.mean())

    @property
    def mean_output(self) -> float:
        return float(self.outputs.mean())

    def draw(self, count: int, random: np.random.Generator) -> tuple[Tokens, Tokens]:
        """`count` pairs in random order, each row of the table equally often up to one: less noise than free draws."""
        rows = random.permutation(len(self.prompts))[np.arange(count) % len(self.prompts)]
        random.shuffle(rows)
        prompts: Tokens = self.prompts[rows]
        outputs: Tokens = self.outputs[rows]
        return prompts, outputs


def _log_normal(mean: float) -> Tokens:
    """Stratified: the quantiles in the middle of `_ROWS` equal parts. Mean of a log-normal: exp(mu + sigma² / 2)."""
    sigma = float(np.sqrt(np.log1p(_CV**2)))
    mu = np.log(max(mean, 1.0)) - sigma**2 / 2
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((row + 0.5) / _ROWS) for row in range(_ROWS)])
    lengths: Tokens = np.maximum(np.rint(np.exp(mu + sigma * scores)), 1).astype(np.int64)
    return lengths
