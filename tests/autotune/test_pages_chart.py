"""What pictures are drawn with: scales, ticks, numbers, thinned lines, and the trade-off picture."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.pages.chart import Chart
from autotune.pages.number import number, tick
from autotune.pages.points import thinned
from autotune.pages.scale import Scale
from autotune.report.facts import Dot
from autotune.report.picture import tradeoff_svg
from tests.autotune.test_pages import HOSTILE


@given(st.lists(st.floats(-1e15, 1e15) | st.sampled_from([math.nan, math.inf, -math.inf]), max_size=8))
@settings(max_examples=200, deadline=None)
def test_scales_take_any_values_and_keep_them_inside(values: list[float]) -> None:
    for scale in (Scale.linear(values), Scale.logarithmic(values), Scale.span(values)):
        assert scale.low < scale.high
        marks = scale.ticks()
        assert len(marks) <= 12 and marks == sorted(marks)
        for value in values:
            if math.isfinite(value):
                assert 0.0 <= scale.at(value) <= 1.0


def test_ticks_are_round_and_a_few() -> None:
    assert Scale.linear([0, 37]).ticks() == [0, 10, 20, 30, 40]
    assert Scale(0, 24, step=3).ticks() == [0, 3, 6, 9, 12, 15, 18, 21, 24]
    assert Scale.logarithmic([3, 4000]).ticks() == [10, 100, 1000]
    assert 3 <= len(Scale.logarithmic([50, 60]).ticks()) <= 8
    assert [tick(value) for value in (0, 0.1 + 0.2, 1000, 25_000, 3e6)] == ["0", "0.3", "1000", "25k", "3M"]
    assert [number(value) for value in (None, math.nan, 0.0, 0.01234, 1.234, 12.34, 1234.5, 7)] == [
        "-",
        "-",
        "0",
        "0.0123",
        "1.23",
        "12.3",
        "1,234",
        "7",
    ]


def test_thinning_keeps_every_peak() -> None:
    points = [(float(x), 0.0) for x in range(100_000)]
    points[77_777] = (77_777.0, 5.0)
    thin = thinned(points)
    assert len(thin) < 1000 and (77_777.0, 5.0) in thin and thin == sorted(thin)


def test_a_line_that_isnt_finite_somewhere_is_drawn_in_pieces() -> None:
    chart = Chart("t", Scale(0, 4), Scale(0, 4), ("x", "y"))
    chart.line([(0, 0), (1, 1), (2, math.inf), (3, 3), (4, 4)], "blue")
    assert chart.svg().count("<polyline") == 2


def test_the_tradeoff_picture_stands_alone() -> None:
    dots = [
        Dot(id="t1", kind="baseline", throughput=100.0, latency=300.0, label=HOSTILE),
        Dot(id="t2", kind="incumbent", throughput=140.0, latency=200.0, label="x=1"),
        Dot(id="t3", kind="tried", throughput=0.0, latency=200.0, label="x=2"),
    ]
    svg = tradeoff_svg(dots, ["t2"], "p95_ttft_ms", 250.0)
    root = ET.fromstring(svg)
    assert root.get("aria-label") == "Output throughput against p95_ttft_ms of every trial"
    assert svg.count("<polyline") == 1 and "promise: 250" in svg and "tried" not in svg
    assert svg.count("<circle") == 2 + 2  # two dots and their legend
    assert tradeoff_svg([], [], "p95_ttft_ms", None) == ""
    json.dumps(svg)
