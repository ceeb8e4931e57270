"""A measurement's way through JSON, and what it says of requests that are missing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.test_measure_numbers import measurement, ok
from tools.canonical import canonical_json
from tools.measure import ClientHealth, Measurement, RequestRecord
from tools.targets.target import Identity

finite = st.floats(allow_nan=False, allow_infinity=False)
counters = st.none() | st.dictionaries(st.text(max_size=8), finite, max_size=3)
identities = st.none() | st.builds(
    Identity,
    model=st.text(),
    model_digest=st.text(),
    config=st.dictionaries(st.text(max_size=5), st.booleans() | st.integers() | finite | st.text(), max_size=3),
    config_digest=st.text(),
    started_at=finite,
    process_started_at=finite,
    pid=st.integers(0),
    engine=st.text(),
)
records = st.builds(
    RequestRecord,
    index=st.integers(0),
    scheduled_s=finite,
    sent_s=finite,
    outcome=st.sampled_from(["ok", "failed", "timed_out"]),
    end_s=finite,
    http_status=st.none() | st.integers(100, 599),
    error=st.text(),
    first_chunk_s=st.none() | finite,
    token_times_s=st.lists(finite, max_size=4).map(tuple),
    token_counts=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    prompt_tokens=st.none() | st.integers(0),
    output_tokens=st.none() | st.integers(0),
    cached_tokens=st.none() | st.integers(0),
    token_source=st.sampled_from(["usage", "token_ids", "chunks"]),
    token_ids=st.lists(st.integers(0), max_size=4).map(tuple),
    finish_reason=st.none() | st.text(),
)
measurements = st.builds(
    Measurement,
    workload_digest=st.text(),
    spec_digest=st.text(),
    seed=st.integers(0),
    config_digest=st.text(),
    offered=st.integers(0),
    started_at=finite,
    window_s=finite,
    records=st.lists(records, max_size=3).map(tuple),
    client=st.builds(ClientHealth, finite, finite),
    extras=st.lists(st.text(), max_size=2).map(tuple),
    identity_before=identities,
    identity_after=identities,
    counters_before=counters,
    counters_after=counters,
)


@given(measurements)
@settings(max_examples=60, deadline=None)
def test_a_measurement_goes_through_json_unchanged(measured: Measurement) -> None:
    text = canonical_json(measured.to_json())
    again = Measurement.from_json(json.loads(text))
    assert again == measured
    assert canonical_json(again.to_json()) == text


def test_a_measurement_with_a_foreign_key_is_refused() -> None:
    with pytest.raises(TypeError):
        Measurement.from_json({**measurement(ok()).to_json(), "speedup": 2})


def test_a_lost_record_shows_as_a_difference() -> None:
    lost = measurement(ok(0), ok(1), offered=3)
    assert lost.offered - lost.completed - lost.failed - lost.timed_out == 1
