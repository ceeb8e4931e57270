"""Strategies for measurements of any content that their types allow, however unlikely."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tools.measure import ClientHealth, Measurement, RequestRecord
from tools.targets.target import Identity

__all__ = ["measurements", "records"]

finite = st.floats(min_value=0, max_value=1e6, allow_nan=False)
counts = st.none() | st.integers(0, 2**40)
records = st.builds(
    RequestRecord,
    index=st.integers(0, 2**31),
    scheduled_s=finite,
    sent_s=finite,
    outcome=st.sampled_from(["ok", "failed", "timed_out"]),
    end_s=finite,
    http_status=st.none() | st.integers(100, 599),
    error=st.text(st.characters(exclude_categories=["Cs"])),
    first_chunk_s=st.none() | finite,
    token_times_s=st.lists(finite, max_size=5).map(tuple),
    token_counts=st.lists(st.integers(1, 9), max_size=5).map(tuple),
    prompt_tokens=counts,
    output_tokens=counts,
    cached_tokens=counts,
    token_source=st.sampled_from(["usage", "token_ids", "chunks"]),
    conversation=st.none() | st.integers(0, 99),
    turn=st.integers(0, 9),
    token_ids=st.lists(st.integers(0, 2**31), max_size=5).map(tuple),
    finish_reason=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)
identities = st.builds(
    Identity,
    model=st.text("abc/-", min_size=1),
    model_digest=st.text("0123456789abcdef"),
    config=st.dictionaries(st.text("abc", min_size=1), st.integers(0, 9) | st.booleans() | st.text("xyz"), max_size=3),
    config_digest=st.text("0123456789abcdef"),
    started_at=finite,
    process_started_at=finite,
    pid=st.integers(0, 2**22),
    engine=st.text("abc ."),
)
measurements = st.builds(
    Measurement,
    workload_digest=st.text("0123456789abcdef"),
    spec_digest=st.text("0123456789abcdef"),
    seed=st.integers(-1, 2**62),
    config_digest=st.text("0123456789abcdef"),
    offered=st.integers(0, 10**6),
    started_at=finite | st.just(math.nan),
    window_s=st.just(0.0) | st.floats(min_value=1e-3, max_value=1e6),
    records=st.lists(records, max_size=6).map(tuple),
    client=st.builds(ClientHealth, send_lag_p99_ms=finite | st.just(math.nan), cpu_share=finite),
    extras=st.lists(st.text("abc_"), max_size=3).map(tuple),
    identity_before=st.none() | identities,
    identity_after=st.none() | identities,
    counters_before=st.none() | st.dictionaries(st.text("abc"), finite, max_size=3),
    counters_after=st.none(),
)
