"""Shapes of a log: its conversations, or as many of them as say the same, behind the tree of what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from tools.measure.shapes import ConversationShape, PrefixShape, Shapes
from tools.traces.conversations import LoggedConversation
from tools.traces.marginals import Marginals
from tools.traces.sharing import infinite_hit_rate, prefix_tree

__all__ = ["MOST_ROWS", "sampled", "shapes_of"]

MOST_ROWS = 2000
_TRIES = 8


def shapes_of(conversations: Sequence[LoggedConversation], *, most: int = MOST_ROWS) -> Shapes:
    """At most `most` conversations that have the log's marginals and, drawn as often as the log has requests, its
    prefix-hit rate."""
    rows = sampled(conversations, most)
    if len(rows) < len(conversations):
        rows = _as_shared(rows, conversations)
    return _shapes(rows)


def sampled(conversations: Sequence[LoggedConversation], most: int) -> list[LoggedConversation]:
    """At most `most` conversations with the marginals of all: of several systematic samples, along several orders, the
    one whose worst Kolmogorov-Smirnov distance is least."""
    if len(conversations) <= most:
        return list(conversations)
    whole = Marginals.of(conversations)
    random = Random(0)
    orders = [sorted(conversations, key=key) for key in (_by_prompt, _by_output, _by_turns, _by_pause)]
    best: tuple[float, list[LoggedConversation]] | None = None
    for order in orders:
        for _ in range(_TRIES):
            offset = random.random()
            rows = [order[int((at + offset) * len(order) / most)] for at in range(most)]
            distances = Marginals.of(rows).distances(whole)
            del distances["start_gap_s"]  # of the arrivals, which aren't sampled
            worst = max(distances.values())
            if best is None or worst < best[0]:
                best = worst, rows
    assert best is not None
    return sorted(best[1], key=lambda row: row.start_s)


def _by_prompt(conversation: LoggedConversation) -> tuple[int, int]:
    return conversation.requests[0].prompt_tokens, conversation.requests[0].output_tokens


def _by_output(conversation: LoggedConversation) -> tuple[int, int]:
    return conversation.requests[0].output_tokens, conversation.requests[0].prompt_tokens


def _by_turns(conversation: LoggedConversation) -> tuple[int, float]:
    return len(conversation.requests), conversation.requests[-1].prompt_tokens


def _by_pause(conversation: LoggedConversation) -> tuple[int, float]:
    """Where few conversations go on, their pauses are the marginal of the fewest samples."""
    pauses = conversation.pauses_s()
    return len(pauses), pauses[0] if pauses else conversation.requests[0].prompt_tokens


def _as_shared(
    rows: Sequence[LoggedConversation], conversations: Sequence[LoggedConversation]
) -> list[LoggedConversation]:
    """`rows` whose prefixes are shared by as many tokens as in the whole log, once each row is used many times over.

    A prefix that two of a million conversations share would be shared by hundreds in the twin. So the prefixes that the
    log shares least are made the rows' own, until the predicted hit rate is the log's.
    """
    requests = [request for conversation in conversations for request in conversation.requests]
    target = infinite_hit_rate(requests)
    if target is None:
        return list(rows)
    counts = np.bincount(
        np.concatenate([np.asarray(conversation.path, dtype=np.int64) for conversation in conversations])
    )
    block = requests[0].block_tokens
    in_rows = [request for row in rows for request in row.requests]
    uses = len(requests) / len(in_rows)
    nodes, ends = prefix_tree([row.path for row in rows], block, counts=counts)
    weights = [0] * len(nodes)  # rows that begin with the node
    for end in ends:
        while end >= 0:
            weights[end] += 1
            end = nodes[end].parent
    whole = sum(request.prompt_tokens // block * block for request in in_rows) * uses
    own = sum((row.requests[-1].prompt_tokens // block - row.shared) * block for row in rows) * uses
    tree = sum(node.tokens for node in nodes)
    excess = whole - own - tree - target * sum(request.prompt_tokens for request in in_rows) * uses
    kept_children = [0] * len(nodes)
    for node in nodes:
        if node.parent >= 0:
            kept_children[node.parent] += 1
    private: set[int] = set()
    for at in sorted(range(len(nodes)), key=lambda at: (nodes[at].conversations, -at)):
        loss = nodes[at].tokens * (weights[at] * uses - 1)
        if kept_children[at] or abs(excess - loss) >= abs(excess):
            continue
        excess -= loss
        private.add(at)
        if nodes[at].parent >= 0:
            kept_children[nodes[at].parent] -= 1
    shortened = []
    for row, end in zip(rows, ends, strict=True):
        depth = row.shared
        while end in private:
            depth -= nodes[end].tokens // block
            end = nodes[end].parent
        shortened.append(replace(row, shared=depth))
    return shortened


def _shapes(rows: Sequence[LoggedConversation]) -> Shapes:
    nodes, ends = prefix_tree([row.path for row in rows], rows[0].requests[0].block_tokens)
    return Shapes(
        prefixes=tuple(PrefixShape(tokens=node.tokens, parent=node.parent) for node in nodes),
        conversations=tuple(
            ConversationShape(prefix=end, turns=tuple((new, output, round(gap, 3)) for new, output, gap in row.turns()))
            for row, end in zip(rows, ends, strict=True)
        ),
    )
