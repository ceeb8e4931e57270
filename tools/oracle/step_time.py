"""StepTime: how fast a config will be, from bytes and operations per step. A hint for people and proposers, no mask.

A step reads the weights once, and of each sequence in it the keys and values; it multiplies each of its tokens with the
weights. It takes as long as the longer of the two at the machine's measured rates (the roofline; see
tools/profile/physics.py), divided by the share of the roofline that the engine reaches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tools.profile.physics import ModelFacts
from tools.profile.roofline import Roofline
from tools.targets.knobs import Config

__all__ = ["Load", "Pace", "Roles", "StepTime"]

_PROMISE = re.compile(r"^(?:mean|median|p\d+)_(ttft|tpot)_ms$")


@dataclass(frozen=True, slots=True)
class Load:
    """A workload in means per request."""

    prompt_tokens: float
    output_tokens: float
    in_flight: float
    "Requests that are answered or wait at the same time."
    cached_share: float = 0.0
    "Of the prompt's tokens, 0 to 1: those that the prefix cache holds."

    @classmethod
    def measured(cls, summary: Mapping[str, float]) -> Load:
        """What a trial of the workload showed, by its summary. In flight are, by Little's law (1961), as many as come
        a second times the seconds that each stays; where requests come on their own, a faster config has fewer.

        Raises:
            KeyError: the summary lacks a throughput, or the mean time to the last token.
            ZeroDivisionError: nothing was answered.
        """
        requests, output = summary["request_throughput"], summary["output_throughput"]
        return cls(
            prompt_tokens=(summary["total_token_throughput"] - output) / requests,
            output_tokens=output / requests,
            in_flight=max(1.0, requests * summary["mean_e2el_ms"] / 1000),
        )


@dataclass(frozen=True, slots=True)
class Roles:
    """Which knobs of a target bound a step; the defaults are the bundled engine's. 0 stands for no bound."""

    sequences: str = "max_num_seqs"
    step_tokens: str = "max_num_batched_tokens"
    chunk_tokens: str = "long_prefill_token_threshold"
    cache_tokens: str = "kv_cache_tokens"


@dataclass(frozen=True, slots=True)
class Pace:
    """What is foreseen, in means."""

    ttft_ms: float
    tpot_ms: float
    batch: float
    "Sequences that are answered together."
    bound: Literal["bandwidth", "arithmetic"]
    "What a step without prompts is limited by."


@dataclass(frozen=True)
class StepTime:
    """The model of one machine, model and workload."""

    roofline: Roofline
    facts: Callable[[Config], ModelFacts]
    "What a token costs with a config: a target's `facts`."
    load: Load
    efficiency: float = 1.0
    "Share of the roofline that is reached: over 0, and 1 where nothing was measured, so that paces are lower bounds."
    roles: Roles = Roles()

    def fitted(self, config: Config, alone_tpot_ms: float) -> StepTime:
        """With the efficiency that one request alone showed: foreseen over measured TPOT with `config`."""
        alone = replace(self, load=replace(self.load, in_flight=1.0), efficiency=1.0)
        return replace(self, efficiency=min(1.0, alone.pace(config).tpot_ms / alone_tpot_ms))

    def pace(self, config: Config) -> Pace:
        """TTFT and TPOT of a request in the steady state of the load.

        b sequences are answered together: no more than are in flight, have a seat, or fit into the cache with their
        prompt and half their answer. A prompt is read in n chunks of what b tokens leave of a step. While a request
        gets its o tokens, b others' prompts are read, so that a share min(1, b n / o) of its steps carries a chunk.
        Those in flight without a seat wait for the ones before them.
        """
        load, facts = self.load, self.facts(config)
        context = load.prompt_tokens + load.output_tokens / 2
        seats = (
            load.in_flight,
            self._most(config, self.roles.sequences),
            self._most(config, self.roles.cache_tokens) / context,
        )
        batch = max(1.0, min(seats))
        new_tokens = max(1.0, load.prompt_tokens * (1 - load.cached_share))
        step_tokens = self._most(config, self.roles.step_tokens)
        chunk = max(1.0, min(new_tokens, step_tokens - batch, self._most(config, self.roles.chunk_tokens)))
        chunks = math.ceil(new_tokens / chunk)
        plain_s, bound = self._step_s(facts, batch, context, 0.0)
        mixed_s, _ = self._step_s(facts, batch, context, chunk)
        mixed = min(1.0, batch * chunks / max(load.output_tokens, 1.0))
        tpot_s = mixed * mixed_s + (1 - mixed) * plain_s
        reading_s = chunks * mixed_s
        waiting_s = max(0.0, load.in_flight / batch - 1) * (reading_s + load.output_tokens * tpot_s)
        return Pace(1000 * (waiting_s + reading_s), 1000 * tpot_s, batch, bound)

    def missed(self, config: Config, bounds: Mapping[str, float]) -> tuple[str, ...]:
        """A sentence for each promise that the foreseen mean already misses; a percentile lies higher still."""
        pace, told = self.pace(config), []
        for metric, bound in sorted(bounds.items()):
            if named := _PROMISE.match(metric):
                foreseen = pace.ttft_ms if named[1] == "ttft" else pace.tpot_ms
                if foreseen > bound:
                    told.append(
                        f"{metric} <= {bound:g} looks out of reach: the step-time model foresees a mean of "
                        f"{foreseen:.0f} ms with {pace.batch:.0f} sequences together, limited by {pace.bound}"
                    )
        return tuple(told)

    def _step_s(
        self, facts: ModelFacts, batch: float, context: float, chunk: float
    ) -> tuple[float, Literal["bandwidth", "arithmetic"]]:
        read_bytes = facts.step_bytes + batch * facts.context_bytes(context)
        flops = 2 * facts.token_parameters * (batch + chunk) + 2 * facts.head_parameters * (batch + (chunk > 0))
        reading_s = read_bytes / self.roofline.read_bytes_per_s
        computing_s = flops / (self.roofline.flops_per_s * facts.arithmetic_gain)
        return max(reading_s, computing_s) / self.efficiency, "bandwidth" if reading_s >= computing_s else "arithmetic"

    def _most(self, config: Config, knob: str) -> float:
        value = config.values.get(knob, 0)
        return math.inf if isinstance(value, bool | str) or value <= 0 else float(value)
