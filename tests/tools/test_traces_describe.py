"""Descriptions of logs with known truths; spec files, presets and scaling."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools import traces_logs as logs
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.measure.arrivals import Burst, Poisson, Renewal, Season, schedule
from tools.measure.slo import Slo
from tools.measure.summary import METRICS
from tools.measure.workload import WorkloadSpec, materialise
from tools.traces import read_log
from tools.traces.arrivals import busy_s, daily_season, dispersion, fit_arrivals, rank_correlation
from tools.traces.describe import describe
from tools.traces.distribution import Distribution
from tools.traces.marginals import ks_distance
from tools.traces.presets import PRESETS, preset
from tools.traces.scaled import scaled
from tools.traces.spec_file import parse_spec, read_spec, spec_yaml


def poisson(chance: random.Random, rate: float, count: int) -> list[float]:
    moments, at = [], 0.0
    for _ in range(count):
        at += chance.expovariate(rate)
        moments.append(at)
    return moments


def test_a_chat_log_described(tmp_path: Path) -> None:
    log = read_log(logs.chat_tenants(tmp_path / "log", 1))
    found = describe(log)
    assert len(found.conversations) == pytest.approx(300, abs=15)  # sessions
    assert found.arrivals.starts_per_s == pytest.approx(0.8, rel=0.15)
    assert found.arrivals.cv == pytest.approx(1.0, abs=0.15)
    assert found.arrivals.season is None
    assert found.sharing is not None and found.sharing.prefixes >= 6  # tenants
    assert found.sharing.lru[-1][1] == pytest.approx(found.sharing.hit_rate)
    assert [rate for _, rate in found.sharing.lru] == sorted(rate for _, rate in found.sharing.lru)
    assert found.turn_gap_s is not None and found.turn_gap_s.fit is not None
    assert found.turn_gap_s.fit.family == "log-normal"
    assert found.check.holds
    assert found.to_json()["spec_digest"] == found.spec.digest


def test_correlated_lengths_without_contents(tmp_path: Path) -> None:
    found = describe(read_log(logs.azure(tmp_path / "log.csv.gz", 1, requests=4000)))
    assert found.sharing is None and found.turn_gap_s is None
    assert found.length_correlation == pytest.approx(6 / math.pi * math.asin(0.25), abs=0.04)  # Pearson's 0.5 in ranks
    assert found.prompt_tokens.fit is not None and found.prompt_tokens.fit.family == "log-normal"
    assert found.arrivals.dispersion["10"] > 5  # the rate itself is random


def test_a_daily_season_is_found_and_a_flat_day_has_none() -> None:
    chance = random.Random(3)
    flat = np.array(poisson(chance, 0.05, 9000))
    assert daily_season(flat) is None
    wave = np.array([at for at in flat if chance.random() < 0.5 * (1 + math.sin(2 * math.pi * at / 86400))])
    season = daily_season(wave)
    assert season is not None and season.period_s == 86400
    best = season.weights.index(max(season.weights))
    assert 4 <= best <= 8  # a quarter of a day after the start
    assert daily_season(wave[wave < 80_000]) is None  # less than a day


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=12).filter(lambda weights: sum(weights) > 0.1),
    st.floats(0.001, 0.999),
    st.integers(0, 3),
)
def test_busy_time_is_the_inverse_of_the_season_clock(weights: list[float], share: float, periods: int) -> None:
    season = Season(period_s=100.0, weights=tuple(weights))
    busy = (periods + share) * 100.0
    assert busy_s(np.array([season.clock(busy)]), season)[0] == pytest.approx(busy, abs=1e-6)


@pytest.mark.parametrize("cv", [0.4, 1.0, 3.0])
def test_fitted_arrivals_have_the_gaps_and_the_rate_of_the_log(cv: float) -> None:
    chance = random.Random(7)
    moments, at = [], 0.0
    for _ in range(4000):
        moments.append(at)
        at += chance.gammavariate(1 / cv**2, cv**2 / 2.0)
    fitted = fit_arrivals(moments)
    assert isinstance(fitted, Renewal) and abs(fitted.persistence) < 0.05
    drawn = schedule(fitted, len(moments), 5)
    assert drawn is not None
    assert ks_distance(np.diff(moments), np.diff(drawn)) < 0.02
    assert drawn[-1] == pytest.approx(moments[-1], rel=0.02)


def test_clusters_are_kept_as_persistence() -> None:
    chance = random.Random(2)
    moments, at = [], 0.0
    for block in range(200):
        for _ in range(20):
            at += chance.expovariate(5.0 if block % 2 else 0.5)
            moments.append(at)
    fitted = fit_arrivals(moments)
    assert isinstance(fitted, Renewal) and fitted.persistence > 0.2
    drawn = schedule(fitted, len(moments), 1)
    assert drawn is not None
    gaps = np.diff(drawn)
    assert rank_correlation(gaps[:-1], gaps[1:]) == pytest.approx(fitted.persistence, abs=0.05)


def test_few_starts_and_one_moment() -> None:
    assert fit_arrivals([0.0, 0.0, 0.0]) == Burst(kind="burst")
    assert fit_arrivals([0.0, 1.0, 4.0]) == Poisson(kind="poisson", rate_rps=0.5)
    assert dispersion(np.array(poisson(random.Random(1), 2.0, 4000)), 1.0) == pytest.approx(1.0, abs=0.15)
    assert dispersion(np.array([0.0, 10.0]), 1.0) is None


def test_distributions() -> None:
    chance = random.Random(1)
    sample = [chance.lognormvariate(3, 1) for _ in range(3000)]
    found = Distribution.of(sample)
    assert found is not None and found.fit is not None
    assert found.fit.family == "log-normal" and found.fit.ks < 0.03
    assert found.quantiles["p50"] == pytest.approx(float(np.median(sample)))
    uniform = Distribution.of([chance.random() for _ in range(3000)])
    assert uniform is not None and uniform.fit is not None and uniform.fit.family == "uniform"
    fixed = Distribution.of([5.0, 5.0])
    assert fixed is not None and fixed.fit is None
    assert Distribution.of([]) is None


def test_spec_files_round_trip(tmp_path: Path) -> None:
    spec = describe(read_log(logs.mooncake(tmp_path / "log", 1, conversations=300))).spec
    path = tmp_path / "twin.yaml"
    path.write_text(spec_yaml(spec, ["a comment"]))
    found, slo, objective = read_spec(path)
    assert found == spec and found.digest == spec.digest and not slo.bounds() and objective is None
    assert path.read_text().startswith("# a comment\nworkload:\n")


SMALL = "workload: {requests: 8, prompt_tokens: 20, output_tokens: 4, arrivals: {kind: poisson, rate_rps: 5e-05}}\n"


def test_a_spec_file_has_a_promise_and_an_objective_or_neither() -> None:
    alone = parse_spec(Path("x.yaml"), SMALL)
    assert alone.spec.arrivals == Poisson(kind="poisson", rate_rps=5e-5)
    assert alone.slo == Slo() and alone.objective is None
    assert parse_spec(Path("x.yaml"), SMALL + "slo:\nobjective:\n") == alone
    both = parse_spec(Path("x.yaml"), SMALL + "slo: {ttft_ms: {p95: 1e3}}\nobjective: {metric: p95_e2el_ms}\n")
    assert both.slo.bounds() == {"p95_ttft_ms": 1000.0} and both.objective == "p95_e2el_ms"


def test_a_deployment_is_a_spec_file_whose_other_sections_are_somebody_elses() -> None:
    path = Path(__file__).parents[2] / "configs/demo/deployment.yaml"
    own = load_deployment(path).deployment
    assert read_spec(path) == (own.workload, own.slo, own.objective.metric)
    assert parse_spec(Path("x.yaml"), SMALL + "model: any\nguardrail: []\n") == parse_spec(Path("x.yaml"), SMALL)


def test_a_spec_file_may_be_larger_than_a_deployment(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(SMALL.replace("workload:", "workload:" + " " * (1 << 20)))
    assert read_spec(path) == parse_spec(path, SMALL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload: [", "not valid YAML"),
        ("", "found nothing"),
        ("[1, 2]", "found something else"),
        ("slo: {}", "expected a workload: section, found slo"),
        ("workload: {requests: 1, arrivals: {kind: burst}}", "prompt_tokens and output_tokens"),
        ("workload: {requests: 1, request: 2}", "workload.request: unknown key; did you mean 'requests'"),
        (SMALL.replace("8", "eight"), "workload.requests: .* found 'eight'"),
        (SMALL + "slos: {}", "found 'slos'; did you mean 'slo'"),
        (SMALL + "seed: 4", "found 'seed'; indent it under workload:"),
        (SMALL + "zzz: 4", "found 'zzz'; remove it"),
        (SMALL + "slo: {ttft: {p95: 100}}", r"slo\.ttft: unknown key; did you mean 'ttft_ms'"),
        (SMALL + "objective: {metric: p95_ttft}", "did you mean p95_ttft_ms"),
        (SMALL + "objective: p95_ttft_ms", "not a valid objective"),
        (SMALL + SMALL, "line 2: the key workload stands here a second time"),
        (SMALL.replace("8", "010"), "YAML 1.1 reads 010"),
        (SMALL.replace("5e-05", "1e999"), "larger than any number"),
        (SMALL.replace("20", "&many 20"), "anchors and aliases"),
    ],
)
def test_bad_spec_files_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_spec(Path("x.yaml"), text)


def test_a_spec_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none that can be read: No such file"):
        read_spec(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        read_spec(tmp_path / "b.yaml")


def test_presets_are_valid_and_judged_by_known_metrics() -> None:
    for name in PRESETS:
        found = preset(name)
        assert found.spec.workload_class == name
        assert found.objective in METRICS
        assert found.slo.bounds()
        small = materialise(scaled(found.spec.model_copy(update={"requests": 40}), 0.1), 1)
        assert len(small.requests) == 40
    assert preset("chat-plus").slo.stutter is not None
    with pytest.raises(KeyError):
        preset("chat-minus")


def test_scaling_keeps_ratios() -> None:
    whole = preset("chat-plus").spec
    small = scaled(whole, 0.1)
    assert whole.prompt_tokens is not None and small.prompt_tokens is not None
    assert small.prompt_tokens.max == 200 and small.prompt_tokens.mean == pytest.approx(16.1)
    assert small.arrivals.model_dump()["rate_rps"] == pytest.approx(0.1)
    assert small.turns == whole.turns and small.turn_gap_s == whole.turn_gap_s
    assert scaled(preset("data-processor").spec, 0.001).arrivals.model_dump()["concurrency"] == 1
    with pytest.raises(ValueError, match="above 0"):
        scaled(whole, 0.0)


def test_scaling_shapes_and_replays() -> None:
    shapes = {"prefixes": [{"tokens": 100}], "conversations": [{"prefix": 0, "turns": [[50, 20, 0.0], [1, 1, 3.0]]}]}
    spec = WorkloadSpec.model_validate(
        {"requests": 2, "shapes": shapes, "arrivals": {"kind": "replay", "times_s": [0.0], "speed": 2.0}}
    )
    small = scaled(spec, 0.5)
    assert small.shapes is not None
    assert small.shapes.prefixes[0].tokens == 50
    assert small.shapes.conversations[0].turns == ((25, 10, 0.0), (1, 1, 3.0))
    assert small.arrivals.model_dump()["speed"] == 1.0
