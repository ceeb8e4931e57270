"""A device that computes nothing and remembers what each slot of the cache holds, and who may rely on it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from engine.block_pool import BlockPool
from engine.delta import FinishReason
from engine.knobs import EngineKnobs
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler, Step
from engine.seats import Index
from engine.sequence import Sequence

VOCAB_SIZE = 50


def chains(tokens: list[int]) -> list[int]:
    """What the cache holds at each of `tokens`: it depends on all that precede it, as a key does."""
    return list(itertools.accumulate(tokens, lambda value, token: (value * 1_000_003 + token + 1) % (2**61 - 1)))


def answer(prompt: list[int], count: int) -> list[int]:
    """What the device says to `prompt`, computed alone."""
    known = list(prompt)
    for _ in range(count):
        known.append(chains(known)[-1] % VOCAB_SIZE)
    return known[len(prompt) :]


@dataclass
class Simulation:
    """A scheduler over such a device, with or without a step in flight."""

    knobs: EngineKnobs
    overlap: bool = False
    blocks: int = 100
    answers: dict[str, list[int]] = field(default_factory=dict)
    reasons: dict[str, FinishReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.knobs, BlockPool(self.blocks))
        self.sequences: dict[str, Sequence] = {}
        self.steps: list[Step] = []
        self._kv = np.zeros(self.blocks * self.knobs.block_size, np.int64)
        self._newest: dict[int, int] = {}
        self._launched: tuple[Step, Index, list[Sequence]] | None = None
        self._names = itertools.count()

    def add(self, prompt: list[int], max_tokens: int, priority: int = 0) -> str:
        name = f"r{next(self._names)}"
        params = SamplingParams(max_tokens=max_tokens)
        sequence = self.sequences[name] = Sequence(name, np.array(prompt, np.int32), params, priority=priority)
        self.answers[name] = []
        self.scheduler.add(sequence)
        return name

    def finish(self, name: str, reason: FinishReason = "abort") -> None:
        self.reasons.setdefault(name, reason)
        self.scheduler.finish(self.sequences[name], reason)

    def step(self) -> Step:
        step = self.scheduler.schedule()
        if step is None:
            self.settle()
            step = self.scheduler.schedule()
            assert step is not None
        self.steps.append(step)
        assert all(sequence.seat < 0 for sequence in step.preempted), "what a victim gave up is still being written"
        launched = None
        if step.num_sequences:
            launched = step, self._compute(step), [self._sitting(seat) for seat in step.seats[step.yields]]
            self.scheduler.launch(step)
        if self.overlap:
            self.settle()
        self._launched = launched
        if not self.overlap:
            self.settle()
        return step

    def settle(self) -> None:
        if self._launched is None:
            return
        (step, tokens, sequences), self._launched = self._launched, None
        self.scheduler.settle(step, tokens)
        for sequence, token in zip(sequences, tokens.tolist(), strict=True):
            name = sequence.request_id
            if sequence.finish_reason is None:
                self.answers[name].append(token)
                if len(self.answers[name]) == sequence.params.max_tokens:
                    self.finish(name, "length")

    def run(self, most: int = 2000) -> None:
        """Until nothing is left to do."""
        for _ in range(most):
            if not self.scheduler.has_work and self._launched is None:
                return
            self.step()
            self.scheduler.check()
        raise AssertionError(f"still at work after {most} steps")

    def _sitting(self, seat: int) -> Sequence:
        sequence = self.scheduler.seats.sitting[seat]
        assert sequence is not None
        return sequence

    def _compute(self, step: Step) -> Index:
        """Write what the step computes, look at all that it relies on, and say the next tokens."""
        seats, size = self.scheduler.seats, self.knobs.block_size
        said = []
        written: set[int] = set()
        for seat, first, count, yields in zip(
            *map(list, (step.seats, step.first, step.count, step.yields)), strict=True
        ):
            end = first + count
            tokens = seats.token_ids[seat, :end].tolist()
            if seats.num_pending[seat]:
                assert count == 1, "whose newest token is unknown has nothing else to compute"
                tokens[-1] = self._newest[seat]
            held = chains(tokens)
            slots = [int(seats.block_table[seat, at // size]) * size + at % size for at in range(end)]
            assert self._kv[slots[:first]].tolist() == held[:first], f"seat {seat} relies on another's tokens"
            assert not written & set(slots[first:]), "two sequences write to one slot"
            assert not written & set(slots[:first]), "a sequence relies on what this very step computes"
            written |= set(slots[first:])
            self._kv[slots[first:]] = held[first:]
            if yields:
                self._newest[seat] = held[-1] % VOCAB_SIZE
                said.append(self._newest[seat])
        return np.array(said, np.int64)
