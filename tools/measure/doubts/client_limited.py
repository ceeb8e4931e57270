"""Was the client the limit? Then the numbers are its own, and the server may be faster than they say."""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["client_limited"]

_LATE_MS = 10.0
_MOST_LATE = 0.05
"Of the requests. On a machine that client and server share, the odd one is late by the operating system's doing."
_LATE_SHARE = 0.1
"Of the median time to first token, of a burst's whole time: a lag that is small against it moves nothing by much."
_BUSY_CORE = 0.9
_BUSY_CHUNKS = 0.8
"Of the most chunks a second that this client can read: the goal that it was tested at."


def client_limited(case: Case) -> Doubt | None:
    """Late sends, a full core, or a chunk rate near the most that the calibrated client can read."""
    client = case.measurement.client
    evidence: dict[str, float] = {}
    found: list[str] = []
    # Of a burst nothing can be on time: what counts is how much of the whole it took to send.
    first_turns = [record for record in case.records if record.turn == 0]
    at_once = bool(first_turns) and first_turns[0].scheduled_s == first_turns[-1].scheduled_s
    usual_ms = case.measurement.window_s * 1000 if at_once else case.summary.get("p50_ttft_ms", 0.0)
    bound_ms = max(_LATE_MS, _LATE_SHARE * usual_ms)
    late = sum((record.sent_s - record.scheduled_s) * 1000 > bound_ms for record in case.records)
    if late > max(_MOST_LATE * len(case.records), 1):
        evidence |= {"late_requests": late, "late_ms": bound_ms, "send_lag_p99_ms": client.send_lag_p99_ms}
        found.append(f"{late} of {len(case.records)} requests were sent over {bound_ms:.3g} ms late")
    if client.cpu_share > _BUSY_CORE:
        evidence["cpu_share"] = client.cpu_share
        found.append(f"its busiest process used {client.cpu_share:.0%} of a core")
    if case.floor is not None and case.measurement.window_s > 0:
        chunks = sum(len(record.token_times_s) for record in case.records)
        rate = chunks / case.measurement.window_s
        # The floor was calibrated with so many processes; the load may have had another number.
        most = case.floor.max_chunks_per_s * client.workers / case.floor.workers
        if rate > _BUSY_CHUNKS * most:
            evidence |= {"chunks_per_s": rate, "max_chunks_per_s": most}
            found.append(f"{rate:,.0f} chunks a second came, of {most:,.0f} that it can read")
    if not found:
        return None
    return Doubt(
        "client_limited",
        True,
        f"the client was the limit: {', '.join(found)}. Spread the load over more --workers, offer a lower rate, or "
        "run the client on another machine than the server",
        evidence,
    )
