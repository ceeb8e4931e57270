"""Situations: drawn deployments, small to large, in which a playbook's advice is tried out without serving anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from agents.engines import EngineName
from agents.view import View
from tools.measure.summary import METRICS
from tools.targets.knobs import Config, Knob, KnobSpace, Value

__all__ = ["Situation", "Starts", "draw_config", "draw_situation"]

Starts = Callable[[Config], str]
"""Why a config would not start; an empty text where nothing speaks against it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One deployment as a playbook sees it. Its baseline starts."""

    engine: EngineName
    about: str
    "The machine and the model, for people."
    view: View
    metrics: Mapping[str, float]
    starts: Starts


def draw_config(space: KnobSpace, random: Random) -> Config:
    """Every tunable knob at its default or, half of the time, anywhere in its range; the others at their default."""
    return Config({knob.name: _value(knob, random) if knob.tunable else knob.default for knob in space})


def draw_situation(
    engine: EngineName,
    about: str,
    space: KnobSpace,
    baseline: Config,
    starts: Starts,
    *,
    longest: int,
    hardware: Mapping[str, float],
    random: Random,
) -> Situation:
    """A workload of up to `longest` tokens a request, and anything that may have been measured and promised."""
    metrics = {metric: _size(1, 10_000, random) for metric in METRICS}
    promised = random.choice([{}, {"p95_tpot_ms": _size(5, 500, random), "p95_ttft_ms": _size(50, 5000, random)}])
    view = View(
        deployment="drawn",
        objective_metric="",  # no metric, so that every hypothesis bears on it
        lower_is_better=True,
        min_effect=0.05,
        slo=promised,
        space=space,
        baseline=baseline,
        trials=(),
        incumbent=None,
        noise=None,
        workload=_workload(longest, random),
        hardware=hardware,
        trials_left=1,
        seconds_left=1.0,
    )
    return Situation(engine, about, view, metrics, starts)


def _workload(longest: int, random: Random) -> dict[str, float]:
    output = _size(4, max(5, longest / 4), random)
    prompt = _size(8, max(9, longest / 2), random)
    facts = {
        "requests": float(round(_size(8, 512, random))),
        "mean_prompt_tokens": prompt,
        "max_prompt_tokens": min(longest - output, prompt * _size(1, 8, random)),
        "mean_output_tokens": output,
        "max_output_tokens": output,
        "system_prompt_tokens": float(random.choice([0, round(prompt * random.random())])),
    }
    if random.random() < 0.5:
        return {**facts, "concurrency": float(round(_size(1, 256, random)))}
    return {**facts, "rate_rps": _size(0.1, 64, random)}


def _size(low: float, high: float, random: Random) -> float:
    """Small ones as often as large ones: each tenfold is as likely as the next."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def _value(knob: Knob, random: Random) -> Value:
    if random.random() < 0.5:
        return knob.default
    if knob.kind in ("bool", "choice"):
        return random.choice(knob.choices or (True, False))
    assert knob.low is not None and knob.high is not None, f"{knob.name} is tuned, so it has a range"
    drawn = _size(max(knob.low, 1e-3), knob.high, random)
    return round(drawn) if knob.kind == "int" else drawn
