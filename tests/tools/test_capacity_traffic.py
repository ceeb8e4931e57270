"""Traffic from files: rates, counts, arrivals, workloads; and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tools.capacity.traffic import DAY_S, Traffic
from tools.capacity.traffic_file import read_traffic
from tools.errors import UserError
from tools.traces.spec_file import read_spec


def read(path: Path, interval_s: float = 3600, percentile: float = 100, growth: float = 1.0) -> Traffic:
    return read_traffic(path, interval_s=interval_s, percentile=percentile, growth=growth)


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_days_are_laid_over_each_other(tmp_path: Path) -> None:
    rows = [f"{day * 86_400 + hour * 3600},{10 + hour + 100 * (day == 1)}" for day in range(3) for hour in range(24)]
    path = written(tmp_path / "t.csv", "time,rate_rps", *rows)
    assert read(path).rates_rps == tuple(110.0 + hour for hour in range(24))
    assert read(path, percentile=50).rates_rps == tuple(10.0 + hour for hour in range(24))
    assert read(path, percentile=50, growth=2).peak_rps == 66
    assert read(path).requests_a_day == pytest.approx(sum(10 + hour + 100 / 3 for hour in range(24)) * 3600)


def test_counts_are_divided_by_the_time_until_the_next(tmp_path: Path) -> None:
    rows = [f"2026-03-01T{hour:02d}:{minute:02d}:00Z,{600 * (hour + 1)}" for hour in range(24) for minute in (0, 30)]
    traffic = read(written(tmp_path / "t.csv", "timestamp,count", *rows))
    assert traffic.rates_rps == pytest.approx([(hour + 1) / 3 for hour in range(24)])


def test_arrivals_have_rates_lengths_and_burstiness(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    times = np.sort(random.uniform(8 * 3600, 12 * 3600, 20_000))
    rows = [f"{at:.4f},{random.integers(1, 9)},{random.integers(1, 5)}" for at in times]
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    traffic = read(path, percentile=50)
    assert len(traffic.rates_rps) == 4
    assert traffic.start_s == 8 * 3600
    assert not traffic.repeats
    assert traffic.rates_rps == pytest.approx([20_000 / 4 / 3600] * 4, rel=0.05)
    assert traffic.cv == pytest.approx(1, abs=0.05)
    assert traffic.lengths is not None
    assert traffic.lengths.mean_prompt == pytest.approx(4.5, rel=0.02)


def test_bursts_are_told_apart_from_the_season(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    calm = np.cumsum(np.full(5000, 4.0))  # a metronome
    bursty = np.cumsum(random.gamma(0.25, 16, 5000))  # coefficient of variation 2
    for name, times, expected in (("calm", calm, 0.0), ("bursty", bursty, 2.0)):
        path = written(tmp_path / f"{name}.csv", "time", *(f"{at:.5f}" for at in times))
        assert read(path).cv == pytest.approx(expected, abs=0.15)


def test_a_workload_tells_its_season_and_its_turns(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "workload:\n  class: chat\n  requests: 400\n  prompt_tokens: 20\n  output_tokens: 10\n  turns: 4\n"
        "  arrivals: {kind: renewal, rate_rps: 2, gaps: [0, 0.7, 3],"
        " season: {period_s: 86400, weights: [1, 2, 3, 2]}}\n"
    )
    traffic = read(path, growth=1.5)
    assert traffic.rates_rps == pytest.approx([6, 12, 18, 12])
    assert traffic.interval_s == DAY_S / 4
    assert traffic.repeats


def test_a_workload_tells_how_bursty_it_is_and_not_at_what_time_of_day(tmp_path: Path) -> None:
    def of(arrivals: str) -> Traffic:
        path = tmp_path / "w.yaml"
        path.write_text(f"workload: {{requests: 4, prompt_tokens: 20, output_tokens: 10, arrivals: {arrivals}}}\n")
        return read(path)

    season = "season: {period_s: 86400, weights: [1, 3]}"
    uniform = of("{kind: renewal, rate_rps: 2, gaps: [0, 2]}")
    assert uniform.cv == pytest.approx(1 / 3**0.5), "of a uniform distribution"
    assert uniform.clock_known, "the same rate all day has no hours"
    grid = np.linspace(0, 1, 5001)[:-1]
    exponential = [*(-np.log1p(-grid)).round(6).tolist(), 10.0]
    assert of(f"{{kind: renewal, rate_rps: 2, gaps: {exponential}, {season}}}").cv == pytest.approx(1, abs=0.01)
    bursty = of(f"{{kind: renewal, rate_rps: 2, gaps: [0, 0, 0, 0, 0, 0, 0, 0, 0, 20], {season}}}")
    # Eight ninths are 0, the others uniform to 20: mean 20/18, mean square 400/27.
    assert bursty.cv == pytest.approx((400 / 27 / (20 / 18) ** 2 - 1) ** 0.5)
    assert not bursty.clock_known
    times = [3 * 3600 + 30.0 * count for count in range(200)]
    replay = of(f"{{kind: replay, times_s: {times}}}")
    assert (replay.start_s, replay.clock_known) == (0.0, False), "a replay begins with its log"


def test_rates_may_come_in_any_order(tmp_path: Path) -> None:
    rows = [f"{hour * 3600},{10 + hour}" for hour in range(6, 12)]
    ordered = read(written(tmp_path / "ordered.csv", "time,rate", *rows))
    turned = read(written(tmp_path / "turned.csv", "time,rate", *reversed(rows)))
    assert (turned.rates_rps, turned.start_s) == (ordered.rates_rps, ordered.start_s) == (tuple(range(16, 22)), 21600)


def test_a_workload_without_a_rate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("workload: {requests: 4, prompt_tokens: 20, output_tokens: 10, arrivals: {kind: burst}}\n")
    with pytest.raises(UserError, match="burst have no rate"):
        read(path)
    assert read_spec(path).spec.requests == 4


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["when,rate"], "expected a header with a time column"),
        (["time,rate,count", "0,1,2"], "both a rate and a count"),
        (["time,rate"], "a header alone"),
        (["time,rate", "0,1", "soon,2"], "line 3: expected a moment"),
        (["time,rate", "0,many"], "line 2: expected a number for the rate, found 'many'"),
        (["time,rate", "0,-1"], "at least 0"),
        (["time,rate", "0,nan"], "finite"),
        (["time,rate", "0"], "expected a number for the rate, found ''"),
        (["time,rate", "0,0", "3600,0"], "expected some traffic"),
        (["time,count", "5,1", "5,1"], "two different moments"),
        (["time,rate", "7200,1", "3600,2", "7200,3"], "one rate a moment, found two for the time 7200"),
        (["time", "5"], "at least two moments"),
        (["time,rate", "0,1", "90000,1"], "no traffic is told"),
    ],
)
def test_what_isnt_traffic_is_named_with_its_place(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(written(tmp_path / "t.csv", *lines))


def test_no_file_and_a_binary_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        read(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="found something else"):
        read(tmp_path / "b.csv")


def test_an_interval_must_divide_the_day(tmp_path: Path) -> None:
    rows = [f"{hour * 3600},1" for hour in range(48)]
    with pytest.raises(UserError, match="divides a day"):
        read(written(tmp_path / "t.csv", "time,rate", *rows), interval_s=7000)


def test_the_rate_between_is_never_above_the_plan_and_reaches_its_peaks() -> None:
    rates = (5.0, 9.0, 9.0, 2.0, 4.0, 1.0)
    traffic = Traffic(rates, DAY_S / 6, 0.0, rates, "test")
    moments = np.linspace(0, DAY_S, 2000, endpoint=False)
    for moment in moments:
        assert traffic.at(moment) <= rates[int(moment // traffic.interval_s)] + 1e-9
    assert max(traffic.at(moment) for moment in moments) == pytest.approx(9, rel=0.01)
    assert traffic.at(4.5 * traffic.interval_s) == 4
    assert traffic.at(0.0) == traffic.at(DAY_S) == 1
    assert traffic.fastest_growth(traffic.interval_s / 2) > 1.5
    assert Traffic.steady(3, "flat").fastest_growth(600) == 1
