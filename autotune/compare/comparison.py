"""Comparison: everything that the trials of all contenders say, derived from them alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from autotune.compare.against import Against, Standing, against, standing
from autotune.compare.entry import Entry
from autotune.compare.metric import CompareMetric, compared_by
from autotune.compare.trial import CompareTrial

__all__ = ["Comparison"]


@dataclass(frozen=True)
class Comparison:
    """Contenders in the order in which they were named; the first is what the others are held against."""

    entries: tuple[Entry, ...]
    trials: tuple[CompareTrial, ...]
    rounds: int
    "That were asked for."
    judged_by: str
    "The metric that the work is judged by before all others."
    workload: str
    "In a few words."
    ended_early: str = ""
    "Why there are fewer trials than were asked for."

    @property
    def first(self) -> Entry:
        return self.entries[0]

    @property
    def others(self) -> tuple[Entry, ...]:
        return self.entries[1:]

    @property
    def interrupted(self) -> bool:
        """Whether its user ended it."""
        return self.ended_early == "interrupted"

    @cached_property
    def metrics(self) -> tuple[CompareMetric, ...]:
        """Those that some trial tells."""
        told = {name for trial in self.trials for name in trial.values}
        return tuple(metric for metric in compared_by(self.judged_by) if metric.name in told)

    def of(self, entry: Entry) -> tuple[CompareTrial, ...]:
        """All trials of a contender, those that don't count among them, in the order of their rounds."""
        return tuple(sorted((t for t in self.trials if t.contender == entry.name), key=lambda trial: trial.round))

    def counted(self, entry: Entry) -> tuple[CompareTrial, ...]:
        return tuple(trial for trial in self.of(entry) if trial.counts)

    def by_round(self, entry: Entry, metric: CompareMetric) -> dict[int, float | None]:
        """Its value in each round whose trial counts; None where that trial can't tell it."""
        return {trial.round: trial.values.get(metric.name) for trial in self.counted(entry)}

    def standing(self, entry: Entry, metric: CompareMetric) -> Standing | None:
        return standing(self.by_round(entry, metric))

    def against(self, entry: Entry, metric: CompareMetric) -> Against | None:
        """`entry` held against the first, in the rounds that count for both."""
        return against(self.by_round(self.first, metric), self.by_round(entry, metric))

    @cached_property
    def longest_tokens(self) -> int:
        """Of all requests that anybody answered."""
        return max((trial.longest_tokens for trial in self.trials), default=0)

    def tokens(self, entry: Entry) -> tuple[float, float] | None:
        """Prompt and output tokens of a request, by the server's own count, in the mean over the rounds that count for
        everybody who has one that counts; None where it doesn't tell."""
        running = [{trial.round for trial in self.counted(one)} for one in self.entries if self.counted(one)]
        shared = set.intersection(*running) if running else set()
        each = [trial.tokens() for trial in self.counted(entry) if trial.round in shared]
        told = [pair for pair in each if pair is not None]
        if not told or len(told) < len(each):
            return None
        return fmean(prompt for prompt, _ in told), fmean(output for _, output in told)
