"""Which playbook fits a deployment, by what it asks for and by what its workload looks like."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tools.measure.summary import lower_is_better

__all__ = ["suggest_playbook"]

_LONG_PROMPT_TOKENS = 4096
_SHARED_SHARE = 0.5
_LEAST_SHARED_TOKENS = 256


def suggest_playbook(objective_metric: str, workload: Mapping[str, float], promised: Collection[str] = ()) -> str:
    """The name of the shipped playbook to begin with.

    The objective decides first: it says who waits, and for what. Only where somebody waits for tokens does the shape of
    the prompts decide further.

    Args:
        objective_metric: one of METRICS.
        workload: facts as in WORKLOAD_FACTS; absent ones count as nothing special.
        promised: metrics that have a bound.

    Raises:
        ValueError: a metric that no summary has.
    """
    if not lower_is_better(objective_metric):
        return "cost-per-token" if promised else "batch-throughput"
    if any(part in objective_metric for part in ("e2el", "task", "duration")):
        return "background-agents"
    if any(part in objective_metric for part in ("p99", "max_", "stutter")):
        return "tail-and-stutter"
    prompt, shared = workload.get("mean_prompt_tokens", 0), workload.get("system_prompt_tokens", 0)
    if shared >= max(_LEAST_SHARED_TOKENS, _SHARED_SHARE * prompt):
        return "prefix-heavy"
    return "long-context" if prompt >= _LONG_PROMPT_TOKENS else "interactive-latency"
