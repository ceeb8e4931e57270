"""Queues whose latencies are known: first come, first served, Poisson arrivals, k servers, in equilibrium.

Vectorised over independent queues by the recursion of Lindley (one server) and of Kiefer & Wolfowitz (many).
`simulated_load` is one such queue as a Measurement, for what is asked of whole loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.measure import ClientHealth, Measurement, RequestRecord

__all__ = ["Queue", "simulated_load"]

_SETTLE = 4000
"Requests before the first that counts, to forget the empty start."


@dataclass(frozen=True, slots=True)
class Queue:
    """One kind of queue, mean service time 1."""

    servers: int
    load: float = 0.8
    sigma: float | None = None
    "Of log-normal service times; exponential ones if None."

    @property
    def name(self) -> str:
        return f"M/{'M' if self.sigma is None else 'G'}/{self.servers}"

    def sojourns(self, queues: int, requests: int, seed: int) -> NDArray[np.float64]:
        """Seconds from arrival to the end of service, in order of arrival; shape [queues, requests]."""
        random = np.random.default_rng(seed)
        rows = np.arange(queues)
        work = np.zeros((queues, self.servers))
        found = np.empty((requests, queues))
        for number in range(-_SETTLE, requests):
            service = self._service(random, queues)
            server = work.argmin(1)
            sojourn = work[rows, server] + service
            if number >= 0:
                found[number] = sojourn
            work[rows, server] = sojourn
            gap = random.exponential(1 / (self.servers * self.load), queues)
            work = np.maximum(work - gap[:, None], 0.0)
        return np.ascontiguousarray(found.T)

    def quantiles(self, shares: Sequence[float], seed: int = 0) -> list[float]:
        """The true quantiles of the sojourn time: by formula, or from a very long run where there is none."""
        if self.sigma is not None:
            return [float(found) for found in np.quantile(self.sojourns(1000, 20_000, seed), list(shares))]
        return [self._quantile(share) for share in shares]

    def _quantile(self, share: float) -> float:
        low, high = 0.0, 1e4
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self._longer_than(middle) > 1 - share else (low, middle)
        return (low + high) / 2

    def _service(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        if self.sigma is None:
            return random.exponential(1.0, count)
        return random.lognormal(-(self.sigma**2) / 2, self.sigma, count)

    def _longer_than(self, seconds: float) -> float:
        """P(sojourn > t) of M/M/k: a wait with Erlang's C probability, exponential with rate k - offered, then service.

        (Gross & Harris, Fundamentals of Queueing Theory, § 2.3.)
        """
        offered = self.servers * self.load
        terms = [offered**n / math.factorial(n) for n in range(self.servers)]
        last = offered**self.servers / math.factorial(self.servers) / (1 - self.load)
        waits = last / (sum(terms) + last)
        drain = self.servers - offered
        if math.isclose(drain, 1.0):
            return math.exp(-seconds) * (1 + waits * seconds)
        both = (math.exp(-seconds) * drain - math.exp(-drain * seconds)) / (drain - 1)
        return (1 - waits) * math.exp(-seconds) + waits * both


def simulated_load(
    requests: int,
    *,
    servers: int = 8,
    load: float = 0.5,
    seed: int = 0,
    settled: bool = True,
    slowness: Callable[[float], float] = lambda share: 1.0,
) -> Measurement:
    """What an exact client would record of a server with so many seats, log-normal service around 1 s.

    The first token comes after the wait and a tenth of the service, ten more come evenly until its end. `slowness` of
    the share of requests gone by multiplies the service. Not settled: the server is empty at the start.
    """
    random = np.random.default_rng(seed)
    free_s = np.zeros(servers)
    now_s = start_s = 0.0
    records: list[RequestRecord] = []
    for number in range(-2000 if settled else 0, requests):
        now_s += random.exponential(1 / (servers * load))
        service_s = random.lognormal(-0.18, 0.6) * slowness(max(number, 0) / requests)
        server = int(free_s.argmin())
        begin_s = max(float(free_s[server]), now_s)
        free_s[server] = begin_s + service_s
        if number == 0:
            start_s = now_s
        if number >= 0:
            first_s = begin_s + 0.1 * service_s - start_s
            times_s = tuple(first_s + step * 0.09 * service_s for step in range(11))
            records.append(
                RequestRecord(
                    index=number,
                    scheduled_s=now_s - start_s,
                    sent_s=now_s - start_s + 1e-4,
                    outcome="ok",
                    end_s=times_s[-1],
                    http_status=200,
                    first_chunk_s=first_s,
                    token_times_s=times_s,
                    token_counts=(1,) * 11,
                    prompt_tokens=10,
                    output_tokens=11,
                    token_source="usage",
                    finish_reason="length",
                )
            )
    return Measurement(
        workload_digest="w",
        spec_digest="s",
        seed=seed,
        config_digest="c",
        offered=requests,
        started_at=1.7e9,
        window_s=max(record.end_s for record in records),
        records=tuple(records),
        client=ClientHealth(0.1, 0.2),
    )
