"""Steady: what one replica does at a steady rate, in closed form. Where a search begins, and what no fleet can beat.

A request costs a replica `prefill_s_per_token * prompt` seconds of reading, in which nobody gets a token beyond the one
of that step, and its output tokens at one per step. With k sequences decoding, a replica therefore serves at most
    1 / (reading + output * step_s(k) / k)
requests a second, and at rate r (with u = r * reading the share of time spent reading) Little's law gives
    k = r * output * step_s(k) / (1 - u).
These are means: they know nothing of bursts or of luck, and so they are a guess and not an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tools.capacity.mix import Mix
from tools.measure.slo import Slo
from tools.service.curve import ServiceCurve
from tools.service.replica import Replica

__all__ = ["Steady", "floors_ms"]


@dataclass(frozen=True)
class Steady:
    """One replica and what it is asked."""

    curve: ServiceCurve
    mix: Mix

    @property
    def reading_s(self) -> float:
        """Mean seconds of reading a request's prompt."""
        return self.curve.prefill_s_per_token * self.mix.mean_prompt

    def most_rps(self) -> float:
        """Requests per second that a replica with all the work in the world gets done: its ceiling."""
        counts = np.arange(1, self.curve.seats + 1)
        steps = np.maximum.accumulate([self.curve.step_s(int(count)) for count in counts])
        return float((1 / (self.reading_s + self.mix.mean_output * steps / counts)).max())

    def decoding(self, rate_rps: float) -> float:
        """Sequences that decode together at that rate, from 0 to `seats`; `seats` where the rate is too high."""
        low, high = 0.0, float(self.curve.seats)
        share = 1 - rate_rps * self.reading_s
        if share <= 0:
            return high
        for _ in range(40):
            middle = (low + high) / 2
            asked = rate_rps * self.mix.mean_output * self.curve.step_s(max(middle, 1.0)) / share
            low, high = (middle, high) if asked > middle else (low, middle)
        return high

    def guess(self, rate_rps: float, slo: Slo) -> int:
        """A first guess at the replicas for that rate: enough for the mean gap between tokens, and a square root.

        Square-root staffing (Halfin and Whitt, 1981): to keep waiting short, the spare capacity grows as the root of
        the load. Here the load is counted in replicas.
        """
        least = rate_rps / self.most_rps()
        tightest = min((b for n, b in slo.bounds().items() if "tpot" in n or "itl" in n), default=math.inf) / 1000
        count = max(least + 0.5 * math.sqrt(least), 1.0)
        for _ in range(60):
            each = rate_rps / count
            share = max(1 - each * self.reading_s, 1e-9)
            if self.curve.step_s(max(self.decoding(each), 1.0)) / share <= tightest or count > 1e7:
                break
            count *= 1.1
        return math.ceil(count)


def floors_ms(replica: Replica, mix: Mix, slo: Slo) -> dict[str, float]:
    """Each bound's metric, in ms, for requests that have a replica to themselves: no number of replicas gets below.

    Keys as in `Slo.bounds`. Gaps between tokens are one step each.
    """
    step_s = replica.step_s(1, 0)
    chunks = -(-mix.prompts // replica.chunk_tokens)
    first_s = replica.latency_s + chunks * replica.reading_s + replica.curve.prefill_s_per_token * mix.prompts
    samples_s = {
        "ttft_ms": first_s,
        "e2el_ms": first_s + (mix.outputs - 1) * step_s,
        "tpot_ms": np.array([step_s]),
        "itl_ms": np.array([step_s]),
    }
    floors = {}
    for name in slo.bounds():
        statistic, metric = name.split("_", 1)
        values = samples_s[metric]
        value = values.mean() if statistic == "mean" else np.percentile(values, float(statistic[1:]))
        floors[name] = float(value) * 1000
    return floors
