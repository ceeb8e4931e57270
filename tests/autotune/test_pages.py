"""Pages: whatever was measured can be drawn, small, whole, and with nothing of a server's in it but text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from autotune.pages import bench_page, calibration_page, capacity_page
from autotune.pages.bench_flow import MOST_ROWS, in_flight, waterfall
from autotune.pages.number import number
from autotune.pages.scale import Scale
from tests.tools.any_measurement import measurements
from tools.formats import read
from tools.measure import ClientHealth, Measurement, RequestRecord, Slo, summarise, summary_intervals
from tools.service.curve import ServiceCurve

FILES = Path(__file__).parent.parent / "tools" / "files"
HOSTILE = "</title><script>alert('x')</script>&\"'"
TWO_MB = 2_000_000


class _Page(HTMLParser):
    """Checks that tags nest, and collects what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "onclick")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def _sound(page: str) -> _Page:
    """Well formed, self-contained, without script, every picture with a name, and no number that isn't one."""
    assert len(page.encode()) < TWO_MB
    parsed = _Page(page)
    assert not parsed.tags & {"script", "link", "img", "iframe", "object"} and not parsed.sources
    assert "@import" not in page and "url(" not in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = ET.fromstring(svg)
        assert root.get("aria-label") and root.get("role") == "img"
        assert not re.search(r'="[^"]*\b(nan|inf)\b', svg), svg[:300]
    return parsed


def _measurement(requests: int = 60, *, seed: int = 1, failed: bool = True) -> Measurement:
    random = Random(seed)
    records, due = [], 0.0
    for index in range(requests):
        due += random.expovariate(5)
        first = due + 0.05 + random.expovariate(20)
        stamps = tuple(first + 0.02 * token for token in range(12))
        record = RequestRecord(
            index, due, due + 0.001, "ok", stamps[-1] + 0.001, token_times_s=stamps, prompt_tokens=50, output_tokens=12
        )
        if failed and index % 17 == 5:
            record = replace(record, outcome="failed", error=HOSTILE, token_times_s=(), output_tokens=None)
        records.append(record)
    window_s = max(record.end_s for record in records)
    return Measurement("ab", "cd", 3, "", requests, 1.8e9, window_s, tuple(records), ClientHealth(1.0, 0.2))


def _bench(measurement: Measurement, **more: Any) -> dict[str, Any]:
    slo = Slo(ttft_ms={"p95": 300}, itl_ms={"p99": 50})
    intervals = {name: [i.low, i.high] for name, i in summary_intervals(measurement, slo).items()}
    return {"target": "t", "slo": slo.bounds(), "intervals": intervals, **summarise(measurement, slo), **more}


def test_a_bench_page_has_its_numbers_its_pictures_and_its_doubts() -> None:
    measurement = _measurement(500, failed=False)
    doubts = [{"name": "client_limited", "invalid": True, "sentence": "The client was late."}]
    slices = {"time": [{"slice": "0 to 9 s", "requests": 40, "p50_ttft_ms": 61.0}, {"slice": "9 s on", "requests": 20}]}
    page = bench_page(_bench(measurement, doubts=doubts, warm_up_s=4.0, slices=slices), measurement)
    _sound(page)
    assert page.count("<svg") == 4 + 1 + 3 + 1
    for text in (
        "INVALID",
        "client limited",
        "The client was late.",
        "steady from here",
        "promise: p95 300",
        "by time",
    ):
        assert text in page, text
    summary = summarise(measurement)
    for name in ("p50_ttft_ms", "p99_ttft_ms", "p95_e2el_ms", "request_throughput"):
        assert number(summary[name]) in page, name


def test_what_cant_be_told_is_a_dash_with_its_reason() -> None:
    measurement = _measurement(60)
    page = bench_page(_bench(measurement), measurement)
    assert "60 samples; 368 are needed" in page
    assert "Not examined" in page and "No doubts" not in page
    assert "No doubts" in bench_page(_bench(measurement, doubts=[]), measurement)
    many = _measurement(1000)
    assert "falls on one of 59 requests that failed" in bench_page(_bench(many), many)


def test_text_of_a_server_stays_text() -> None:
    measurement = _measurement(60)
    more = {
        "target": HOSTILE,
        "errors": [HOSTILE],
        "doubts": [{"name": HOSTILE, "invalid": False, "sentence": HOSTILE}],
    }
    page = bench_page({**_bench(measurement), **more, "slices": {HOSTILE: [{HOSTILE: HOSTILE}]}}, measurement)
    _sound(page)
    assert "<script" not in page and "alert" in page


def test_a_reading_of_another_tool_shows_no_number_that_its_file_doesnt_tell() -> None:
    reading = read(FILES / "guidellm.json")
    assert reading.measurement is not None
    bench = {**reading.ours(), "target": "t", "lacks": sorted(reading.lacks)}
    page = bench_page(bench, reading.measurement)
    _sound(page)
    # The title of a missing number, and no curve of it.
    assert page.count("doesn&#39;t tell") == 5 and "Distribution of the gap" not in page
    assert "Distribution of the time per output token" in page


@given(measurement=measurements)
@settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
def test_any_measurement_can_be_drawn(measurement: Measurement) -> None:
    bench = {"target": "t", "slo": {"p95_ttft_ms": 300.0}, "warm_up_s": 1.0, **summarise(measurement)}
    _sound(bench_page(bench, measurement))


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_a_load_that_nobody_answered_can_be_drawn(outcome: Any) -> None:
    measurement = _measurement(40)
    lost = tuple(replace(r, outcome=outcome, token_times_s=(), output_tokens=None) for r in measurement.records)
    measurement = replace(measurement, records=lost)
    page = bench_page(_bench(measurement), measurement)
    _sound(page)
    assert ("no sample" in page) and ("can&#39;t be told: missed" in page or outcome == "timed_out")


def test_a_huge_load_stays_small_and_is_thinned_evenly() -> None:
    measurement = _measurement(6_000)
    page = bench_page(_bench(measurement, warm_up_s=3.0), measurement)
    _sound(page)
    assert f"{MOST_ROWS} of 6,000 requests" in page
    rows = [int(found) for found in re.findall(r"<title>request (\d+): due", waterfall(measurement))]
    shown = sorted(set(rows))
    gaps = {later - earlier for earlier, later in pairwise(shown)}
    assert len(shown) == MOST_ROWS and gaps == {20}


def test_the_mean_number_in_flight_follows_littles_law() -> None:
    measurement = _measurement(300, failed=False)
    picture = ET.fromstring(in_flight(measurement))
    polygon = next(e for e in picture.iter() if e.tag.endswith("polygon"))
    corners = [tuple(map(float, corner.split(","))) for corner in str(polygon.get("points")).split()]
    top, floor, low_x, high_x = 16.0, 240 - 48.0, 64.0, 760 - 18.0
    level = Scale.linear([0.0, _tallest(measurement)]).high
    seconds = sum(
        (later[0] - earlier[0]) / (high_x - low_x) * measurement.window_s * (floor - earlier[1]) / (floor - top) * level
        for earlier, later in pairwise(corners)
        if earlier[1] == later[1]
    )
    truth = sum(record.end_s - record.sent_s for record in measurement.records)
    assert seconds == pytest.approx(truth, rel=0.02)


def _tallest(measurement: Measurement) -> float:
    """The highest mean over a bin, counted by stepping finely."""
    width_s, fine = measurement.window_s / 60, 200
    best = 0.0
    for index in range(60):
        moments = [width_s * (index + step / fine) for step in range(fine)]
        best = max(best, sum(sum(r.sent_s <= m < r.end_s for r in measurement.records) for m in moments) / fine)
    return best


# -- calibration


def _calibration(**more: Any) -> dict[str, Any]:
    curve = ServiceCurve("c", "", 16, 0.004, 1e-4, ((1, 0.01), (8, 0.02), (16, 0.03)), 200.0, 50.0)
    predictions = []
    for rate in (1.0, 2.0, 4.0, 6.0):
        row = {"rate_rps": rate}
        for statistic, factor in (("p50", 1.0), ("p95", 2.0), ("p99", 3.0)):
            for family in ("ttft", "itl"):
                value = 20.0 * factor / (1 - rate / 8)
                row |= {f"{statistic}_{family}_ms": value, f"low_{statistic}_{family}_ms": 0.9 * value}
                row[f"high_{statistic}_{family}_ms"] = 1.2 * value
        predictions.append(row)
    points = [
        {"rate_rps": 3.0, "requests": 90, "summary": {"p95_ttft_ms": 70.0}, "predicted": {"p95_ttft_ms": 64.0}}
        | {"held_out": True, "seed": 1},
        {
            "rate_rps": 1.0,
            "requests": 90,
            "summary": {"p95_ttft_ms": 46.0},
            "predicted": {},
            "held_out": False,
            "seed": 2,
        },
    ]
    return {
        "target": "t",
        "model": "m",
        "curve": curve.to_json(),
        "predictions": predictions,
        "points": points,
        "knee_rps": 5.0,
        "capacity_rps": 7.5,
        "slo": {"p95_ttft_ms": 120.0},
        "best_rate": {"rate_rps": 4.5, "reason": "it holds"},
        "doubts": [],
        **more,
    }


def test_a_calibration_page_has_prediction_measurement_knee_and_errors() -> None:
    page = calibration_page(_calibration(target=HOSTILE, requests_sent=270, seconds=60.0))
    _sound(page)
    for text in ("knee 5.00", "capacity 7.50", "best rate 4.50", "promise: p95 120 ms", "64.0 (-8.6%)", "held out"):
        assert text in page, text
    assert "it holds" in page and page.count("<svg") == 3  # ttft, itl, steps: nothing was said of e2el


def test_a_calibration_without_promise_points_or_predictions_can_be_drawn() -> None:
    bare = _calibration(predictions=[], points=[], slo={}, best_rate=None, doubts=None)
    page = calibration_page(bare)
    _sound(page)
    assert page.count("<svg") == 1 and "Not examined" in page
    unmet = calibration_page(_calibration(best_rate={"rate_rps": None, "reason": "no rate holds it"}))
    assert "no rate holds it" in unmet


# -- capacity


def _plan(**more: Any) -> dict[str, Any]:
    intervals = [
        {
            "start_s": 3600.0 * hour,
            "rate_rps": 10.0 + hour,
            "mean_rps": 9.0 + hour,
            "needed": 2 + hour // 4,
            "provisioned": 3 + hour // 4,
            "utilisation": 0.7,
            "values_ms": {"p95_ttft_ms": 200.0 + hour},
        }
        for hour in range(24)
    ]
    priced = {"hardware": "a", "why_not": None, "peak_replicas": 8, "gpus": 8, "per_day": 90.0}
    costs = [
        priced | {"per_day_static": 130.0, "per_million_tokens": 0.2, "per_million_output_tokens": 0.9},
        {"hardware": HOSTILE, "why_not": "its floor is above the bound", "peak_replicas": None, "gpus": None}
        | {"per_day": None, "per_day_static": None, "per_million_tokens": None, "per_million_output_tokens": None},
    ]
    degraded = [
        {"missing": 1, "replicas": 7, "holds": True, "stable": True, "values_ms": {"p95_ttft_ms": 300.0}}
        | {"shed_share": 0.0, "kept_rps": 33.0},
        {
            "missing": 2,
            "replicas": 6,
            "holds": False,
            "stable": False,
            "values_ms": {},
            "shed_share": 0.1,
            "kept_rps": 30,
        },
    ]
    day = {"name": "hpa", "missed_share": 0.01, "missed_minutes": 3.0, "replica_hours": 99.0, "most_replicas": 9}
    policy = {"min_replicas": 2, "max_replicas": 9, "target_in_flight": 8.0, "scale_down_window_s": 300.0}
    return {
        "hardware": "a",
        "balancer": "least_outstanding",
        "slo": {"p95_ttft_ms": 500.0},
        "traffic": {"clock_known": True},
        "peak_rps": 33.0,
        "peak_replicas": 7,
        "provisioned_replicas": 8,
        "intervals": intervals,
        "headroom": {"needed": 7, "spare": 1, "mean_down": 0.1, "share_enough": 0.9999, "hours_to_short": None},
        "degraded": degraded,
        "currency": "EUR",
        "costs": costs,
        "autoscaling": {**policy, "reaction_s": 120.0, "growth": 1.1, "scheduled": [3, 4]},
        "days": [{**day, "changes": 5, "points": [[0.0, 10.0, 2, 3], [43200.0, 22.0, 5, 6], [86000.0, 33.0, 7, 8]]}],
        "simulated_requests": 120_000,
        "assumptions": ["replicas fail independently"],
        **more,
    }


def test_a_capacity_page_has_the_day_the_costs_and_the_degraded_modes() -> None:
    page = capacity_page(_plan())
    _sound(page)
    assert page.count("<svg") == 4 + 1 + 1
    for text in (
        "its floor is above the bound",
        "grows without end",
        "99.9900 %",
        "replicas fail independently",
        "hpa",
    ):
        assert text in page, text


def test_hours_are_times_of_day_only_where_the_clock_is_known() -> None:
    assert "(UTC)" in capacity_page(_plan())
    page = capacity_page(_plan(traffic={"clock_known": False}))
    assert "UTC" not in page and "hours from the beginning of the traffic" in page


def test_a_plan_without_prices_failures_or_days_can_be_drawn() -> None:
    plan = _plan(currency=None, costs=[], headroom=None, degraded=[], days=[])
    plan["intervals"] = plan["intervals"][:1]
    page = capacity_page(plan)
    _sound(page)
    assert "Cost" not in page and "Headroom" not in page
