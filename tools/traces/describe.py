"""Description: what a log says about its users, and the workload spec that behaves like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.measure.arrivals import Renewal
from tools.measure.workload import WorkloadClass, WorkloadSpec
from tools.traces.arrivals import dispersion, rank_correlation
from tools.traces.conversations import LoggedConversation, conversations_of
from tools.traces.distribution import Distribution
from tools.traces.logged import TraceLog
from tools.traces.marginals import Marginals
from tools.traces.shapes import MOST_ROWS
from tools.traces.sharing import SharedPrefix, heaviest, infinite_hit_rate, lru_curve, prefix_tree
from tools.traces.twin import TwinCheck, check_twin, twin_of

__all__ = ["ArrivalSummary", "Description", "SharingSummary", "describe"]

_NODES_SHOWN = 8
_WINDOWS_S = (1.0, 10.0, 60.0)


@dataclass(frozen=True)
class ArrivalSummary:
    """When conversations start."""

    starts_per_s: float | None
    "None where all came at once."
    requests_per_s: float | None
    cv: float | None
    "Standard deviation of the gaps between starts over their mean: 1 Poisson, above bursty."
    dispersion: dict[str, float]
    "Variance over mean of the starts in windows of so many seconds: 1 Poisson; absent where windows are too few."
    season: tuple[float, ...] | None
    "Relative rates of the 24 hours after the log's beginning; None where no daily season shows."


@dataclass(frozen=True)
class SharingSummary:
    """What prompts have in common."""

    hit_rate: float
    "With a cache of unlimited size, of prompt tokens, whole blocks."
    block_tokens: int
    lru: tuple[tuple[int, float], ...]
    "(cache size in tokens, hit rate)."
    prefixes: int
    "Nodes of the tree of prefixes that several conversations begin with."
    heaviest: tuple[tuple[int, SharedPrefix], ...]
    "Those that save most: (index, node)."


@dataclass(frozen=True)
class Description:
    """A log, described."""

    log: TraceLog
    conversations: tuple[LoggedConversation, ...]
    prompt_tokens: Distribution
    output_tokens: Distribution
    turns: Distribution
    turn_gap_s: Distribution | None
    "None without a conversation of two turns."
    length_correlation: float
    "Spearman's of a request's prompt and output lengths."
    arrivals: ArrivalSummary
    sharing: SharingSummary | None
    "None where the log tells nothing of its prompts' contents."
    spec: WorkloadSpec
    check: TwinCheck

    def to_json(self) -> dict[str, Any]:
        """Everything but the spec, which has a file of its own."""
        log, sharing = self.log, self.sharing
        return {
            "log": {
                "path": str(log.path),
                "format": log.format,
                "lines": log.lines,
                "requests": len(log.requests),
                "bad_lines": log.bad,
                "bad_examples": list(log.bad_examples),
                "left_out": dict(log.left_out),
                "notes": list(log.notes),
                "span_s": log.span_s,
            },
            "conversations": len(self.conversations),
            "prompt_tokens": self.prompt_tokens.to_json(),
            "output_tokens": self.output_tokens.to_json(),
            "turns": self.turns.to_json(),
            "turn_gap_s": None if self.turn_gap_s is None else self.turn_gap_s.to_json(),
            "length_correlation": self.length_correlation,
            "arrivals": {
                "starts_per_s": self.arrivals.starts_per_s,
                "requests_per_s": self.arrivals.requests_per_s,
                "cv": self.arrivals.cv,
                "dispersion": self.arrivals.dispersion,
                "season": self.arrivals.season,
            },
            "sharing": None
            if sharing is None
            else {
                "hit_rate": sharing.hit_rate,
                "block_tokens": sharing.block_tokens,
                "lru": [{"cache_tokens": size, "hit_rate": rate} for size, rate in sharing.lru],
                "prefixes": sharing.prefixes,
                "heaviest": [
                    {
                        "index": index,
                        "tokens": node.tokens,
                        "parent": node.parent,
                        "conversations": node.conversations,
                    }
                    for index, node in sharing.heaviest
                ],
            },
            "twin": self.check.to_json(),
            "spec_digest": self.spec.digest,
        }


def describe(
    log: TraceLog, *, workload_class: WorkloadClass = "chat", most_rows: int = MOST_ROWS, seed: int = 0
) -> Description:
    """What `log` says, and its twin, checked once with `seed`."""
    conversations = conversations_of(log.requests)
    marginals = Marginals.of(conversations)
    prompts, outputs = Distribution.of(marginals.prompt_tokens), Distribution.of(marginals.output_tokens)
    turns = Distribution.of([len(conversation.requests) for conversation in conversations])
    assert prompts is not None and outputs is not None and turns is not None  # a log has a request
    spec = twin_of(log, conversations, workload_class=workload_class, most_rows=most_rows)
    return Description(
        log=log,
        conversations=conversations,
        prompt_tokens=prompts,
        output_tokens=outputs,
        turns=turns,
        turn_gap_s=Distribution.of(marginals.turn_gap_s),
        length_correlation=rank_correlation(marginals.prompt_tokens, marginals.output_tokens),
        arrivals=_arrivals(log, conversations, spec),
        sharing=_sharing(log, conversations),
        spec=spec,
        check=check_twin(conversations, spec, seed, block_tokens=log.block_tokens),
    )


def _arrivals(log: TraceLog, conversations: tuple[LoggedConversation, ...], spec: WorkloadSpec) -> ArrivalSummary:
    starts = np.array([conversation.start_s for conversation in conversations])
    gaps = np.diff(starts)
    span_s = float(starts[-1] - starts[0])
    found = {f"{window_s:g}": dispersion(starts, window_s) for window_s in _WINDOWS_S}
    season = spec.arrivals.season if isinstance(spec.arrivals, Renewal) else None
    return ArrivalSummary(
        starts_per_s=len(gaps) / span_s if span_s > 0 else None,
        requests_per_s=(len(log.requests) - 1) / log.span_s if log.span_s > 0 else None,
        cv=float(gaps.std() / gaps.mean()) if span_s > 0 else None,
        dispersion={window: index for window, index in found.items() if index is not None},
        season=season.weights if season is not None else None,
    )


def _sharing(log: TraceLog, conversations: tuple[LoggedConversation, ...]) -> SharingSummary | None:
    hit_rate = infinite_hit_rate(log.requests)
    if hit_rate is None:
        return None
    nodes, _ = prefix_tree([conversation.path for conversation in conversations], log.block_tokens)
    shown = tuple(heaviest(nodes, _NODES_SHOWN))
    return SharingSummary(hit_rate, log.block_tokens, lru_curve(log.requests), len(nodes), shown)
