"""Closest: the costs of a replica moved until its play of the measured loads agrees best with what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tools.measure import latency
from tools.measure.records import RequestRecord
from tools.service.curve import ServiceCurve
from tools.service.estimate import most_at_once
from tools.service.jobs import Job, jobs_seen
from tools.service.replica import Replica
from tools.service.simulate import simulate

__all__ = ["LARGEST_STEP", "closest_replica"]

_CHUNKS = (64, 128, 256, 512, 1024, 2048, 8192)
"Tokens of a step that are tried; what lies between serves almost alike."
LARGEST_STEP = _CHUNKS[-1]
_TOLERANCE = 0.1
"Relative errors well above this count as outliers: linearly rather than by their square."
_CLEARLY = 1.15
"More streams than seats by this factor is no accident."
_MOVES = 5
_STRIDE = 0.15
"First stride of the search, on the log scale."
_ROUGH_CALLS, _CALLS = 60, 160
"Times that all loads are played for each size of a step; and, twice, to settle the costs with the best one."
_LEASH = 0.02
"How much an e-fold move of one cost away from its direct estimate weighs, in the loss's unit."

Floats = NDArray[np.float64]


def closest_replica(
    curve: ServiceCurve, loads: Sequence[Sequence[RequestRecord]], burst: Sequence[RequestRecord]
) -> tuple[Replica, bool]:
    """The replica that explains `loads` best, and whether its seats are a limit that the burst has shown.

    Args:
        curve: the direct estimates, where the search begins; its seats are the most that were taken at once.
    """
    known = [load for records in loads if (load := _Load.of(records)) is not None]
    replica = _over_step_sizes(_Search(Replica(curve, LARGEST_STEP, 0.5), known))
    # Where they are none they stay as they are: nobody knows how long a step of more sequences takes.
    return replica, _seats_are_a_limit(replica, burst)


@dataclass(frozen=True, slots=True)
class _Load:
    """One measured load to be played again: jobs, and what each took. Arrays are in the order of the jobs."""

    jobs: tuple[Job, ...]
    ttft_s: Floats
    decode_s: Floats
    "First to last token; NaN for a single token."

    @classmethod
    def of(cls, records: Sequence[RequestRecord]) -> _Load | None:
        ok = sorted((record for record in records if record.outcome == "ok"), key=lambda record: record.sent_s)
        if not ok:
            return None
        ttft_s = [latency.ttft_from_send_s(record) or math.nan for record in ok]
        decode_s = [record.token_times_s[-1] - record.token_times_s[0] or math.nan for record in ok]
        return cls(jobs_seen(ok), np.array(ttft_s), np.array(decode_s))

    def error(self, replica: Replica) -> float:
        """Mean soft error of the played times, as squared shares; decoding counts half."""
        played = simulate(replica, self.jobs)
        ttft = _soft(played.ttft_s, self.ttft_s)
        decode = _soft(played.last_token_s - played.first_token_s, self.decode_s)
        return ttft + 0.5 * decode


def _soft(played_s: Floats, measured_s: Floats) -> float:
    known = (measured_s > 0) & (played_s > 0)
    if not known.any():
        return 0.0
    shares = np.log(played_s[known] / measured_s[known]) / _TOLERANCE
    return float(np.mean(2 * (np.sqrt(1 + shares**2) - 1))) * _TOLERANCE**2


class _Search:
    """Nelder-Mead over the costs of a replica; the loss has jumps (who is read in which step), so no gradients."""

    def __init__(self, start: Replica, loads: Sequence[_Load]) -> None:
        self.start = start
        self.loads = loads

    def best(self, chunk_tokens: int, moves: Floats) -> Replica:
        """The closest replica with steps of so many tokens, from `moves` on."""
        for _ in range(2):  # a restart frees a simplex that has collapsed on a ridge
            _, moves = self.near(chunk_tokens, moves, _CALLS)
        return _moved(self.start, moves, chunk_tokens)

    def near(self, chunk_tokens: int, moves: Floats, calls: int) -> tuple[float, Floats]:
        """(loss, moves) of a better place near `moves`, after `calls` trials."""
        from scipy.optimize import minimize

        corners = np.vstack([moves, moves + _STRIDE * np.eye(_MOVES)])
        options = {"maxfev": calls, "initial_simplex": corners, "xatol": 1e-3, "fatol": 1e-7}
        found = minimize(self._loss, moves, args=(chunk_tokens,), method="Nelder-Mead", options=options)
        return float(found.fun), found.x

    def _loss(self, moves: Floats, chunk_tokens: int) -> float:
        replica = _moved(self.start, moves, chunk_tokens)
        errors = [load.error(replica) for load in self.loads]
        return sum(errors) / len(errors) + _LEASH * float(np.square(moves[:4]).sum())


def _over_step_sizes(search: _Search) -> Replica:
    """The closest replica over all sizes of step."""
    # A step can't hold more than all seats' longest prompts: of the sizes above that one stands for all.
    seats = search.start.curve.seats
    longest = sorted(job.prompt_tokens for load in search.loads for job in load.jobs)[-seats:]
    useful = [chunk for chunk in _CHUNKS if chunk < seats + sum(longest)]
    sizes = (*useful, *_CHUNKS[len(useful) :][:1])
    near = {chunk: search.near(chunk, np.zeros(_MOVES), _ROUGH_CALLS) for chunk in sizes}
    # Equally good step sizes are told apart by nothing that was measured: the largest is the engine without a limit.
    chunk = min(sizes, key=lambda size: (round(near[size][0], 5), -size))
    return search.best(chunk, near[chunk][1])


def _seats_are_a_limit(replica: Replica, burst: Sequence[RequestRecord]) -> bool:
    """Whether the burst would have had clearly more streams decoding at once, had there been a seat for each."""
    jobs = jobs_seen(burst)
    crowd = simulate(replace(replica, curve=replace(replica.curve, seats=len(jobs))), jobs)
    most = most_at_once(crowd.first_token_s.tolist(), crowd.last_token_s.tolist())
    return most > _CLEARLY * replica.curve.seats


def _moved(start: Replica, moves: Floats, chunk_tokens: int) -> Replica:
    """`start` with its costs multiplied by e^move: prompt tokens, overhead, steps of few, steps of many sequences; and
    the share of the overhead that is outside the engine moved on the logistic scale."""
    read, overhead, few, many, latency_move = (float(move) for move in moves)
    curve = start.curve
    most = math.log(max(curve.steps[-1][0], 2.0))

    def tilt(sequences: float) -> float:
        return few + (many - few) * math.log(max(sequences, 1.0)) / most

    share = min(max(start.latency_share, 0.02), 0.98)
    odds = math.log(share / (1 - share)) + 4 * latency_move
    return Replica(
        curve=replace(
            curve,
            prefill_s_per_token=curve.prefill_s_per_token * math.exp(read),
            overhead_s=curve.overhead_s * math.exp(overhead),
            steps=tuple((count, step_s * math.exp(tilt(count))) for count, step_s in curve.steps),
        ),
        chunk_tokens=chunk_tokens,
        latency_share=1 / (1 + math.exp(-odds)),
    )
