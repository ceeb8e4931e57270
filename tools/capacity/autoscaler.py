"""Autoscalers: how many replicas they would ask for. The rules are those of Kubernetes' HorizontalPodAutoscaler.

From its documentation ("algorithm details", "configurable scaling behavior"): desired = ceil(current * metric /
target), nothing within a tolerance of 10 %; the largest recommendation of the last `down_window_s` when going down; at
most so much per period either way. Replicas that aren't ready yet count as idle, so that desired = ceil(sum of the
metric / target) while they start.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["DOWN", "UP", "Autoscaler", "HpaRules", "HpaScaler", "ScheduledScaler", "Static", "StepRule"]


@dataclass(frozen=True)
class StepRule:
    """At most this many more (or fewer) within `period_s`: the larger of both counts."""

    percent: int
    pods: int
    period_s: int

    def most(self, base: int) -> int:
        """The largest change from `base` replicas."""
        return max(math.ceil(base * self.percent / 100), self.pods)


UP = StepRule(100, 4, 15)
DOWN = StepRule(10, 1, 60)


@dataclass(frozen=True)
class HpaRules:
    """What an HPA is configured with."""

    least: int
    most: int
    target: float
    "In-flight requests per replica, waiting ones included."
    up: StepRule = UP
    down: StepRule = DOWN
    down_window_s: int = 300
    sync_s: int = 15
    tolerance: float = 0.1


class Autoscaler(Protocol):
    """Asked every `sync_s` seconds."""

    @property
    def sync_s(self) -> float: ...

    def desired(self, now_s: float, current: int, in_flight: float) -> int:
        """Replicas to have, ready or starting.

        Args:
            now_s: since the simulation began; ascending from call to call.
            current: replicas there are, ready or starting.
            in_flight: requests waiting or served at all of them.
        """
        ...


@dataclass
class Static:
    """Always the same."""

    replicas: int
    sync_s: float = 60.0

    def desired(self, now_s: float, current: int, in_flight: float) -> int:
        return self.replicas


@dataclass
class HpaScaler:
    """An HPA at work."""

    rules: HpaRules
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)
    _changes: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def sync_s(self) -> float:
        return self.rules.sync_s

    def desired(self, now_s: float, current: int, in_flight: float) -> int:
        rules = self.rules
        ratio = in_flight / (max(current, 1) * rules.target)
        wanted = current if abs(ratio - 1) <= rules.tolerance else math.ceil(max(current, 1) * ratio)
        wanted = min(max(wanted, rules.least), rules.most)
        self._recommended.append((now_s, wanted))
        while self._recommended[0][0] < now_s - rules.down_window_s:
            self._recommended.popleft()
        if wanted < current:
            wanted = min(max(count for _, count in self._recommended), current)
        limited = self._limited(now_s, current, wanted)
        if limited != current:
            self._changes.append((now_s, limited - current))
        return limited

    def _limited(self, now_s: float, current: int, wanted: int) -> int:
        longest = max(self.rules.up.period_s, self.rules.down.period_s)
        while self._changes and self._changes[0][0] <= now_s - longest:
            self._changes.popleft()
        if wanted > current:
            rule, sign = self.rules.up, 1
        else:
            rule, sign = self.rules.down, -1
        recent = sum(sign * c for at, c in self._changes if at > now_s - rule.period_s and sign * c > 0)
        base = current - sign * recent
        bound = base + sign * rule.most(base)
        return min(wanted, max(bound, current)) if sign > 0 else max(wanted, min(bound, current))


@dataclass
class ScheduledScaler:
    """KEDA's cron triggers: so many replicas by the time of day, and never fewer than an HPA beside them asks for."""

    counts: tuple[int, ...]
    "By interval of a day that repeats."
    interval_s: float
    ahead_s: float
    "Each count is in force so much before its interval begins."
    beside: HpaScaler | None = None
    begin_s: float = 0.0
    "When, in the day, the simulation begins."

    @property
    def sync_s(self) -> float:
        return self.beside.sync_s if self.beside else 15.0

    def scheduled(self, now_s: float) -> int:
        count, now_s = len(self.counts), now_s + self.begin_s
        early = self.counts[int((now_s + self.ahead_s) // self.interval_s) % count]
        return max(early, self.counts[int(now_s // self.interval_s) % count])

    def desired(self, now_s: float, current: int, in_flight: float) -> int:
        scheduled = self.scheduled(now_s)
        return max(scheduled, self.beside.desired(now_s, current, in_flight)) if self.beside else scheduled
