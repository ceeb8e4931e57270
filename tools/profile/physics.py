"""Physics: what a machine can't do. Floors under latencies and ceilings over throughputs, in closed form.

The roofline model of Williams, Waterman and Patterson ("Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009): work takes at least as long as its bytes at the machine's best bandwidth, and at
least as long as its operations at its best arithmetic, each on its own. Below the ridge point, in FLOP per byte,
bandwidth is what limits; above it arithmetic is.

Everything that isn't certain is left out (activations, attention's arithmetic, scales of quantised weights, what the
host does between steps), and the machine is taken to be SAFETY times as fast as the best that was measured, so that no
honest result is refused. One token a step and sequence: with speculative decoding these floors don't hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools.profile.roofline import Roofline

__all__ = ["SAFETY", "Floor", "ModelFacts", "Traffic", "ceilings", "floor_ms"]

SAFETY = 1.3


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a token costs, in the leanest format that may be served."""

    step_bytes: int
    "Bytes of weights that every step reads: all but an input embedding that isn't also the output head."
    token_parameters: int
    "Parameters that multiply every token: all but embedding and output head."
    head_parameters: int = 0
    "Of the output head: they multiply what a new token is chosen from."
    kv_bytes: int = 0
    "Keys and values of one token in one layer: 2 x KV heads x head size x bytes per value."
    kv_layers: tuple[tuple[int, int], ...] = ()
    "(most context tokens that a layer sees, 0 for all; layers of that kind)"
    arithmetic_gain: float = 1.0
    "How much faster than the measured arithmetic the weights' format may be computed with: 2 where it has 8 bits."

    def context_bytes(self, tokens: float) -> float:
        """Bytes of keys and values that a new token with a context of `tokens` reads."""
        return self.kv_bytes * sum(layers * min(tokens, most or tokens) for most, layers in self.kv_layers)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kv_layers": [list(pair) for pair in self.kv_layers]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelFacts:
        """What `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: not such data.
        """
        return cls(**{**data, "kv_layers": tuple((int(most), int(layers)) for most, layers in data["kv_layers"])})


@dataclass(frozen=True, slots=True)
class Floor:
    """Latencies in ms that can't be undercut."""

    ttft_ms: float
    tpot_ms: float
    e2el_ms: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """A load, in means per request."""

    prompt_tokens: float
    new_tokens: float
    "Prompt tokens that have to be computed: not those that the prefix cache may hold."
    output_tokens: float
    batch: float
    "Most requests in flight together: so many tokens share one reading of the weights at best."


def floor_ms(
    roofline: Roofline, facts: ModelFacts, new_tokens: float, *, context_tokens: float = 0.0, output_tokens: float = 1.0
) -> Floor:
    """Lower bounds for one request.

    - TPOT >= (step_bytes + keys and values of the context) / bandwidth: each token needs a step, and a step reads the
      weights once, and the request's own context.
    - TTFT >= the larger of step_bytes / bandwidth and 2 x token_parameters x new_tokens / arithmetic: a multiplication
      and an addition per parameter and token.
    - E2E >= TTFT + (output_tokens - 1) x TPOT.

    Args:
        new_tokens: prompt tokens that must be computed.
        context_tokens: prompt tokens that each new token attends to at least, cached or not.
        output_tokens: tokens of the answer.
    """
    step_s = facts.step_bytes / roofline.read_bytes_per_s
    token_s = (facts.step_bytes + facts.context_bytes(context_tokens)) / roofline.read_bytes_per_s
    compute_s = 2 * facts.token_parameters * new_tokens / (roofline.flops_per_s * facts.arithmetic_gain)
    ttft_ms, tpot_ms = (1000 * seconds / SAFETY for seconds in (max(step_s, compute_s), token_s))
    return Floor(ttft_ms, tpot_ms, ttft_ms + max(output_tokens - 1, 0) * tpot_ms)


def ceilings(roofline: Roofline, facts: ModelFacts, traffic: Traffic) -> dict[str, float]:
    """Upper bounds of `request_throughput`, `output_throughput` and `total_token_throughput`, all per second.

    A request with o output tokens costs the machine at least

    - o x (step_bytes / batch + keys and values of its own prompt) / bandwidth: at best `batch` sequences share one
      reading of the weights; the prompt's computed part alone is counted, as a shared part could be read for many;
    - (2 x token_parameters x (new_tokens + o - 1) + 2 x head_parameters x o) / arithmetic,

    and no more requests a second are served than the larger of the two allows. Of the first token's keys and values
    none are counted: they may never have left the caches.
    """
    output, batch = traffic.output_tokens, max(traffic.batch, 1.0)
    read_bytes = output * facts.step_bytes / batch + max(output - 1, 0) * facts.context_bytes(traffic.new_tokens)
    flops = 2 * facts.token_parameters * (traffic.new_tokens + max(output - 1, 0)) + 2 * facts.head_parameters * output
    cost_s = max(read_bytes / roofline.read_bytes_per_s, flops / (roofline.flops_per_s * facts.arithmetic_gain))
    requests = SAFETY / cost_s
    return {
        "request_throughput": requests,
        "output_throughput": requests * output,
        "total_token_throughput": requests * (traffic.prompt_tokens + output),
    }
