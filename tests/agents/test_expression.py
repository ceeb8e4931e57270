"""What an expression of a playbook may say, and what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.expression import Expression, ExpressionError

FACTS = {"config": {"seats": 4, "cache": True}, "workload": {"rate_rps": 2.5}, "load": 10.0}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("load > config.seats and config.cache", True),
        ("pow2(load)", 16),
        ("pow2(0.2)", 1),
        ("1.5 * min(config.seats, load)", 6.0),
        ("config.seats if workload.concurrency is defined else 7", 7),
        ("0 < config.seats < 4", False),
        ("'bf16'", "bf16"),
    ],
)
def test_it_computes(source: str, value: object) -> None:
    assert Expression(source).value(FACTS) == value


@pytest.mark.parametrize("source", ["workload.concurrency > 3", "metrics.p95_ttft_ms", "max(load, workload.nothing)"])
def test_a_fact_that_is_not_known_makes_it_none(source: str) -> None:
    assert Expression(source).value({**FACTS, "metrics": {}}) is None


@pytest.mark.parametrize(
    "source",
    [
        "2 ** 99999",
        "config.__class__.__mro__",
        "().__class__",
        "load|string",
        "range(9)",
        "open('x')",
        "config.seats()",
        "[1, 2]",
        "config['seats']",
        "load is odd",
        "1 +",
        "1 2",
        "{{ load }}",
        "max(1, 2, key=load)",
        "",
    ],
)
def test_anything_else_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(source)


@pytest.mark.parametrize("source", ["load / 0", "'a' < 1", "pow2('a')", "config"])
def test_what_cannot_be_worked_out_says_so(source: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(source).value(FACTS)


def test_names_tell_what_it_looks_at() -> None:
    assert Expression("load > config.seats and pow2(x) > 1").names == {"load", "config.seats", "x"}


@given(st.floats(min_value=-10, max_value=1e9, allow_nan=False))
def test_pow2_is_the_least_power_of_two_not_below(value: float) -> None:
    power = Expression("pow2(x)").value({"x": value})
    assert isinstance(power, int)
    assert power.bit_count() == 1
    assert power >= value
    assert power == 1 or power / 2 < value
