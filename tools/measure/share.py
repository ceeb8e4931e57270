"""Share: the part of a load that one process sends, a whole number of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tools.measure.workload import Request, Workload

__all__ = ["Share"]


@dataclass(frozen=True, slots=True)
class Share:
    """Conversations in order of their start; `concurrency` users in a closed loop, None in an open one."""

    conversations: Sequence[Sequence[Request]]
    concurrency: int | None
    timeout_s: float

    @classmethod
    def whole(cls, workload: Workload) -> Share:
        """All of `workload` in one share."""
        by_conversation = groupby(workload.requests, key=lambda request: request.conversation)
        conversations = [tuple(requests) for _, requests in by_conversation]
        arrivals = workload.spec.arrivals
        concurrency = arrivals.concurrency if arrivals.kind == "closed" else None
        return cls(conversations, concurrency, workload.spec.timeout_s)

    def dealt(self, shares: int) -> list[Share]:
        """Dealt out like cards, so that each share has its part of every moment; none of them empty."""
        shares = min(shares, len(self.conversations), self.concurrency or shares)
        users = [None] * shares if self.concurrency is None else _even(self.concurrency, shares)
        return [
            Share(self.conversations[place::shares], concurrency, self.timeout_s)
            for place, concurrency in enumerate(users)
        ]


def _even(total: int, parts: int) -> list[int]:
    return [total // parts + (place < total % parts) for place in range(parts)]
