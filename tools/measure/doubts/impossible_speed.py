"""Is a number beyond what any server can do? Then it counts something else than tokens from a model."""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.records import RequestRecord

__all__ = ["MAX_STREAM_TOKENS_PER_S", "impossible_speed"]

MAX_STREAM_TOKENS_PER_S = 20_000.0
"""Tokens per second of one stream. A token needs the one before it, so each costs a pass through the model: 50 us, in
which the fastest memory there is (8 TB/s) reads 0.4 GB and a GPU launches about ten kernels. The fastest hardware made
for one model is below it (17,000 in 2026, weights in silicon)."""

_MAX_ENDPOINT_TOKENS_PER_S = 1_000_000.0
"Output tokens per second behind one address: a rack of 72 of the fastest accelerators, with a small model."
_LEAST_TOKENS = 32
"Shorter answers are timed too coarsely."
_FLOOR_SHARE = 0.5
"Of the client's own overhead at the first token, below which no answer over a network can be."


def impossible_speed(case: Case) -> Doubt | None:
    """A stream, an endpoint or a first token faster than physics or than the client's own floor."""
    evidence: dict[str, float] = {}
    found: list[str] = []
    fastest = max((_stream_rate(record) for record in case.ok), default=0.0)
    if fastest > MAX_STREAM_TOKENS_PER_S:
        evidence |= {"stream_tokens_per_s": fastest, "limit_stream_tokens_per_s": MAX_STREAM_TOKENS_PER_S}
        found.append(f"a single answer came at {fastest:,.0f} tokens a second")
    throughput = case.summary.get("output_throughput", 0.0)
    if throughput > _MAX_ENDPOINT_TOKENS_PER_S:
        evidence |= {"output_throughput": throughput, "limit_output_throughput": _MAX_ENDPOINT_TOKENS_PER_S}
        found.append(f"one address gave {throughput:,.0f} output tokens a second")
    before_sent = sum(bool(record.token_times_s) and record.token_times_s[0] < record.sent_s for record in case.ok)
    if before_sent:
        evidence["answered_before_sent"] = before_sent
        found.append(f"{before_sent} answers began before their requests were sent")
    ttft_ms = case.summary.get("p50_ttft_from_send_ms")
    if case.floor is not None and ttft_ms is not None and ttft_ms < _FLOOR_SHARE * case.floor.ttft_overhead_ms:
        evidence |= {"p50_ttft_from_send_ms": ttft_ms, "floor_ttft_ms": case.floor.ttft_overhead_ms}
        found.append(
            f"the median first token took {ttft_ms:.3g} ms, and {case.floor.ttft_overhead_ms:.3g} ms of a server that "
            "doesn't compute anything"
        )
    if not found:
        return None
    return Doubt(
        "impossible_speed",
        True,
        f"no model can do this: {', '.join(found)}. Look at what is counted as tokens, for answers from a cache, and "
        "at the clocks",
        evidence,
    )


def _stream_rate(record: RequestRecord) -> float:
    """Tokens per second from the send to the last token: how the chunks are cut doesn't matter to it."""
    tokens = record.output_tokens or 0
    if tokens < _LEAST_TOKENS or not record.token_times_s:
        return 0.0
    spent_s = record.token_times_s[-1] - record.sent_s
    return tokens / spent_s if spent_s > 0 else 0.0
