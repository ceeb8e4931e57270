"""A deployment to propose for: real knobs, plain facts, and a view that tests vary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import TrialView, View
from tools.proposal import Source
from tools.targets.knobs import Knob, KnobSpace, Value

SPACE = KnobSpace(
    {
        knob.name: knob
        for knob in (
            Knob("max_num_seqs", "int", 32, "Sequences together.", low=1, high=512, log=True, unit="sequences"),
            Knob("max_num_batched_tokens", "int", 512, "Tokens of one step.", low=16, high=16384, log=True),
            Knob("long_prefill_token_threshold", "int", 0, "Most prompt tokens of one sequence.", low=0, high=16384),
            Knob("block_size", "choice", 16, "Tokens in a block.", choices=(8, 16, 32, 64)),
            Knob("enable_prefix_caching", "bool", True, "Reuse a prefix."),
            Knob("kv_cache_tokens", "int", 32768, "Tokens the cache holds.", low=256, high=4_000_000, log=True),
            Knob("num_threads", "int", 0, "CPU threads.", low=0, high=256),
            Knob("max_queue_len", "int", 1024, "Waiting requests.", low=1, high=100_000, tunable=False),
        )
    }
)
WORKLOAD: Mapping[str, float] = {
    "requests": 48,
    "rate_rps": 4.0,
    "system_prompt_tokens": 256,
    "mean_prompt_tokens": 320,
    "max_prompt_tokens": 400,
    "mean_output_tokens": 32,
    "max_output_tokens": 64,
}
HARDWARE: Mapping[str, float] = {"cores": 2, "memory_bytes": 8e9, "gpus": 0}


def trial(
    trial_id: str,
    patch: Mapping[str, Value],
    ttft_ms: float | None,
    *,
    source: Source = "playbook",
    metrics: Mapping[str, float] | None = None,
    reason: str = "",
) -> TrialView:
    measured = {"p95_ttft_ms": ttft_ms, "mean_e2el_ms": 4000.0} if ttft_ms is not None else {}
    outcome: Any = "ok" if ttft_ms is not None else "oom"
    return TrialView(trial_id, patch, source, outcome, {**measured, **(metrics or {})}, (), ttft_ms, reason)


def make_view(config: Mapping[str, Value] | None = None, *trials: TrialView, **changes: Any) -> View:
    shown: dict[str, Any] = {
        "deployment": "demo",
        "objective_metric": "p95_ttft_ms",
        "lower_is_better": True,
        "min_effect": 0.05,
        "slo": {},
        "space": SPACE.only(frozenset(SPACE.knobs) - {"max_queue_len"}),
        "baseline": SPACE.resolve(config or {}),
        "trials": trials,
        "incumbent": None,
        "noise": 0.03,
        "workload": WORKLOAD,
        "hardware": HARDWARE,
        "trials_left": 20,
        "seconds_left": 600.0,
    }
    return View(**{**shown, **changes})
