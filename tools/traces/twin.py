"""The twin of a log: a workload spec that behaves like it, and the check that it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tools.measure.arrivals import Renewal, Replay
from tools.measure.draw import draw
from tools.measure.skeleton import Skeleton
from tools.measure.workload import WorkloadClass, WorkloadSpec
from tools.traces.arrivals import fit_arrivals
from tools.traces.conversations import LoggedConversation, conversations_of
from tools.traces.logged import LoggedRequest, TraceLog
from tools.traces.marginals import Marginals
from tools.traces.shapes import MOST_ROWS, shapes_of
from tools.traces.sharing import infinite_hit_rate

__all__ = ["HIT_GOAL", "KS_GOAL", "TwinCheck", "check_twin", "replay_of", "requests_of", "twin_of"]

KS_GOAL = 0.05
HIT_GOAL = 0.02


@dataclass(frozen=True, slots=True)
class TwinCheck:
    """How far a twin is from its log, for one seed."""

    ks: dict[str, float]
    "Kolmogorov-Smirnov distance per marginal (see `Marginals`)."
    hit_rate_log: float | None
    "With a cache of unlimited size, in whole blocks; None where the log tells nothing of its prompts."
    hit_rate_twin: float | None

    @property
    def hit_difference(self) -> float | None:
        if self.hit_rate_log is None or self.hit_rate_twin is None:
            return None
        return abs(self.hit_rate_log - self.hit_rate_twin)

    @property
    def holds(self) -> bool:
        return max(self.ks.values(), default=0.0) <= KS_GOAL and (self.hit_difference or 0.0) <= HIT_GOAL

    def to_json(self) -> dict[str, Any]:
        return {
            "ks": self.ks,
            "hit_rate_log": self.hit_rate_log,
            "hit_rate_twin": self.hit_rate_twin,
            "holds": self.holds,
        }


def twin_of(
    log: TraceLog,
    conversations: tuple[LoggedConversation, ...],
    *,
    workload_class: WorkloadClass = "chat",
    most_rows: int = MOST_ROWS,
) -> WorkloadSpec:
    """The spec whose workloads have the log's lengths, sharing, pauses and arrivals, and as many requests."""
    return WorkloadSpec(
        workload_class=workload_class,
        requests=len(log.requests),
        shapes=shapes_of(conversations, most=most_rows),
        arrivals=fit_arrivals([conversation.start_s for conversation in conversations]),
    )


def replay_of(log: TraceLog, *, speed: float = 1.0, workload_class: WorkloadClass = "chat") -> WorkloadSpec:
    """The spec of the log itself: each of its requests once, in its order, with its lengths and its sharing, at its own
    moment divided by `speed`. Later turns come when they came, whether or not the answer before is there."""
    conversations = conversations_of(log.requests, linked=False)
    return WorkloadSpec(
        workload_class=workload_class,
        requests=len(log.requests),
        shapes=shapes_of(conversations, most=len(conversations)),
        arrivals=Replay(kind="replay", times_s=tuple(request.at_s for request in log.requests), speed=speed),
    )


def check_twin(
    conversations: tuple[LoggedConversation, ...], spec: WorkloadSpec, seed: int, *, block_tokens: int
) -> TwinCheck:
    """What the workload of `spec` under `seed` has in common with the log's `conversations`."""
    skeleton = draw(spec, spec.requests, seed, part="measured", scheduled=True)
    drawn = requests_of(skeleton, block_tokens)
    distances = Marginals.of(conversations).distances(Marginals.of(drawn))
    if not isinstance(spec.arrivals, Renewal | Replay):
        distances.pop("start_gap_s", None)  # too few to have a distribution
    told = infinite_hit_rate([request for conversation in conversations for request in conversation.requests])
    made = infinite_hit_rate([request for conversation in drawn for request in conversation.requests])
    return TwinCheck(distances, told, made if told is not None else None)


def requests_of(skeleton: Skeleton, block_tokens: int) -> tuple[LoggedConversation, ...]:
    """What a log of `skeleton` would hold, blocks and all; answers take no time."""
    shared, used = _prefix_blocks(skeleton, block_tokens)
    logged = []
    for index, conversation in enumerate(skeleton.conversations):
        blocks = shared[conversation.prefix] if conversation.prefix >= 0 else ()
        depth = len(blocks)
        at_s, prompt = conversation.start_s or 0.0, skeleton.path_tokens(conversation.prefix)
        requests = []
        for turn in conversation.turns:
            prompt += turn.new_tokens
            at_s += turn.gap_s
            more = prompt // block_tokens - len(blocks)
            blocks = (*blocks, *range(used, used + more))
            used += more
            requests.append(LoggedRequest(at_s, prompt, turn.output_tokens, blocks, block_tokens, session=str(index)))
            prompt += turn.output_tokens
        logged.append(LoggedConversation(tuple(requests), depth))
    return tuple(logged)


def _prefix_blocks(skeleton: Skeleton, block_tokens: int) -> tuple[list[tuple[int, ...]], int]:
    """Per node of the sharing tree, the whole blocks from the root to its end, and how many there are in all. A block
    belongs to the node that its last token stands in."""
    paths: list[tuple[int, ...]] = []
    used = 0
    for node, prefix in enumerate(skeleton.prefixes):
        above = paths[prefix.parent] if prefix.parent >= 0 else ()
        more = skeleton.path_tokens(node) // block_tokens - len(above)
        paths.append((*above, *range(used, used + more)))
        used += more
    return paths, used
