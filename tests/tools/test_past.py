"""Past runs become priors: from real ledgers, weighed by distance and by how well they were verified."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.fixed import Fixed
from autotune.harness import Budget, Options, RunDir, Silent, start
from autotune.report_card.scenario import Scenario
from autotune.report_card.stage import laboratory_of, set_up
from tools.canonical import canonical_json
from tools.fingerprint import UNLIKE, WEIGHTS, Fingerprint, fingerprint_of
from tools.ledger import Ledger
from tools.search.past import PROOF, PastConfig, PastRun, Proof, past_priors, past_runs
from tools.targets.knobs import Config, Knob, KnobSpace, Value

START: dict[str, Value] = {
    "max_num_seqs": 1,
    "max_num_batched_tokens": 256,
    "enable_prefix_caching": False,
    "num_threads": 1,
    "kv_cache_tokens": 16384,
}

BETTER: dict[str, Value] = {"enable_prefix_caching": True, "max_num_seqs": 32}


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A replayed run that committed a change: its ledger is as real as a live one's."""
    root = tmp_path_factory.mktemp("past")
    scenario = Scenario(id="x01", about="", start=START, slo={"ttft_ms": {"p95": 20000}}, noise=0, right="improve")
    laboratory = laboratory_of(scenario, 7)
    deployment = set_up(scenario, root / "repository")
    run = RunDir(root / "runs" / "service-7")
    run.logs.mkdir(parents=True)
    options = Options(budget=Budget(wall_s=600, trials=1))
    outcome = start(
        deployment,
        root / "runs",
        options,
        Silent(),
        laboratory=laboratory,
        proposer=Fixed(BETTER, "one at a time is slow"),
        run=run,
        clock=laboratory.clock,
    )
    assert outcome.decision == "tuned", outcome.sentence
    return run


def cut(run: RunDir, folder: Path, name: str, before: str) -> None:
    """A copy of the run that was ended before its first entry of the kind `before`; a chain's start is whole."""
    lines = run.ledger.read_bytes().splitlines(keepends=True)
    at = next((entry.seq for entry in Ledger.read(run.ledger) if entry.kind == before), len(lines))
    (folder / name).mkdir(parents=True)
    (folder / name / "ledger.jsonl").write_bytes(b"".join(lines[:at]))


def space_of(run: RunDir) -> tuple[KnobSpace, Config]:
    started = Ledger.read(run.ledger).find("run.started")
    assert started is not None
    space = KnobSpace.from_json(started.data["knobs"])
    return space.only(frozenset(START)), space.resolve(started.data["deployment"]["config"])


def test_runs_are_read_by_how_far_they_came(committed: RunDir, tmp_path: Path) -> None:
    for name, before in (("a", "nothing"), ("b", "commit"), ("c", "verdict"), ("d", "trial")):
        cut(committed, tmp_path, name, before)
    runs = {run.id: run for run in past_runs(tmp_path).runs}
    assert {name: run.found.proof if run.found else None for name, run in runs.items()} == {
        "a": "committed",
        "b": "passed",
        "c": "tried",
        "d": None,
    }
    found = runs["a"].found
    assert found is not None and found.gain > 0.5 and found.metric == "p95_ttft_ms"
    assert found.changed == BETTER.keys()


def test_a_committed_config_is_the_first_prior_of_a_run_on_the_same_deployment(
    committed: RunDir, tmp_path: Path
) -> None:
    for name, before in (("a", "nothing"), ("c", "verdict")):
        cut(committed, tmp_path, name, before)
    space, baseline = space_of(committed)
    mine = fingerprint_of(Ledger.read(committed.ledger))
    first, *others = past_priors(mine, past_runs(tmp_path).runs, 5, space=space, baseline=baseline)
    assert (first.patch, first.weight, first.source) == (BETTER, PROOF["committed"], "past")
    assert "run a committed this on a deployment at distance 0.00" in first.why
    assert all(other.weight < first.weight for other in others)


def test_what_cant_be_read_is_skipped_with_a_reason(committed: RunDir, tmp_path: Path) -> None:
    cut(committed, tmp_path, "whole", "nothing")
    cut(committed, tmp_path, "unborn", "survey")
    shutil.copytree(tmp_path / "whole", tmp_path / "tampered")
    ledger = tmp_path / "tampered" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"tried"', b'"TRIED"').replace(b'"PASS"', b'"pass"'))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "ledger.jsonl").write_text('{"a": 1}\n')
    with Ledger(tmp_path / "other" / "ledger.jsonl") as other:
        other.append("run.started", {"deployment": "elsewhere"})
        other.append("survey", {"hardware": 3})
    found = past_runs(tmp_path)
    assert [run.id for run in found.runs] == ["whole"]
    assert found.skipped.keys() == {"unborn", "tampered", "foreign", "other"}
    assert "chain is broken" in found.skipped["tampered"] and "survey" in found.skipped["unborn"]
    assert past_runs(tmp_path, but="whole").runs == () and past_runs(tmp_path / "none").runs == ()


def damaged(run: RunDir, folder: Path, name: str, change: Callable[[str, dict[str, Any]], None]) -> None:
    """A copy of the run whose chain is whole and whose entries say something else, up to the verdict."""
    with Ledger(folder / name / "ledger.jsonl") as ledger:
        for entry in Ledger.read(run.ledger):
            if entry.kind == "verdict":
                return
            data = json.loads(canonical_json(dict(entry.data)))
            change(entry.kind, data)
            ledger.append(entry.kind, data, key=entry.key)


def test_figures_that_no_run_writes_are_skipped_with_a_reason(committed: RunDir, tmp_path: Path) -> None:
    def nameless(kind: str, data: dict[str, Any]) -> None:
        if kind == "survey":
            data["hardware"]["packages"] = [""]

    def countless(kind: str, data: dict[str, Any]) -> None:
        if kind == "survey":
            data["hardware"]["cores"] = 10**400

    def endless(kind: str, data: dict[str, Any]) -> None:
        if kind == "trial" and data["role"] == "baseline":
            data["summary"]["p95_ttft_ms"] = 10**400

    for change in (nameless, countless, endless):
        damaged(committed, tmp_path, change.__name__, change)
    cut(committed, tmp_path, "whole", "nothing")
    found = past_runs(tmp_path)
    assert [run.id for run in found.runs] == ["whole"]
    assert found.skipped.keys() == {"nameless", "countless", "endless"}


def test_a_lucky_launch_of_the_baseline_hides_nothing(committed: RunDir, tmp_path: Path) -> None:
    damaged(committed, tmp_path, "run", lambda kind, data: None)
    with Ledger(tmp_path / "run" / "ledger.jsonl") as ledger:
        trials = [entry.data for entry in ledger.of_kind("trial")]
        found = next(trial for trial in trials if trial["role"] == "search")
        standing = next(trial["config"] for trial in trials if trial["role"] == "baseline")
        proposal = {**found["proposal"], "patch": {}}
        lucky = {**found["summary"], "p95_ttft_ms": found["summary"]["p95_ttft_ms"] / 2}
        again = {**found, "id": "again", "config": standing, "proposal": proposal, "summary": lucky}
        ledger.append("trial", again)
        ledger.append("judgement", {"trial": "again", "status": "PASS"})
    (run,) = past_runs(tmp_path).runs
    assert run.found is not None and run.found.changed == BETTER.keys()


LIKE = Fingerprint({"model": {"step_bytes": 100.0, "digest": "x"}, "hardware": {"cores": 8.0}})
KNOBS = KnobSpace(
    {
        "seats": Knob("seats", "int", 8, "", low=1, high=64, log=True),
        "cache": Knob("cache", "bool", True, ""),
        "queue": Knob("queue", "int", 8, "", low=1, high=64, tunable=False),
    }
)
BASELINE = KNOBS.resolve({})


def past(
    name: str, proof: Proof, values: dict[str, Value], fingerprint: Fingerprint = LIKE, gain: float = 0.2
) -> PastRun:
    changed = frozenset(name for name, value in values.items() if value != BASELINE.values.get(name))
    return PastRun(name, fingerprint, PastConfig(values, changed, "output_throughput", gain, proof))


def test_only_what_exists_and_fits_is_set_and_it_weighs_less_for_what_is_missing() -> None:
    values: dict[str, Value] = {"seats": 1000, "cache": False, "queue": 2, "gone": 3}
    (prior,) = past_priors(LIKE, [past("a", "committed", values)], 5, space=KNOBS, baseline=BASELINE)
    assert prior.patch == {"cache": False} and prior.weight == pytest.approx(1 / 4)
    assert "without gone, queue, seats" in prior.why
    assert past_priors(LIKE, [past("a", "committed", {"seats": 8})], 5, space=KNOBS, baseline=BASELINE) == ()
    assert past_priors(LIKE, [past("a", "committed", {"seats": 1000})], 5, space=KNOBS, baseline=BASELINE) == ()


def test_nearer_and_better_verified_runs_come_first_and_equal_patches_count_once() -> None:
    far = Fingerprint({"model": {"step_bytes": 150.0, "digest": "y"}, "hardware": {"cores": 8.0}})
    runs = [
        past("tried", "tried", {"seats": 16}),
        past("far", "committed", {"seats": 32}, far),
        past("near", "committed", {"seats": 24}),
        past("again", "tried", {"seats": 24}),
        past("unlike", "committed", {"seats": 2}, Fingerprint({"model": {"digest": "z"}})),
    ]
    priors = past_priors(LIKE, runs, 5, space=KNOBS, baseline=BASELINE)
    assert priors[0].patch["seats"] == 24
    assert {prior.patch["seats"] for prior in priors} == {24, 16, 32}
    assert [prior.weight for prior in priors] == sorted((prior.weight for prior in priors), reverse=True)
    assert past_priors(LIKE, runs, 1, space=KNOBS, baseline=BASELINE) == priors[:1]


def test_the_distance_is_as_documented() -> None:
    def of(**facts: float | str) -> Fingerprint:
        return Fingerprint({"hardware": facts})

    assert of(cores=2.0).distance(of(cores=2.0 * UNLIKE**0.5)) == pytest.approx(0.5)
    assert of(cores=2.0).distance(of(cores=200.0)) == of(cores=2.0).distance(of(cores=0.0)) == 1
    assert of(cores=2.0, device="cpu").distance(of(cores=2.0, device="cuda")) == 0.5
    assert of(cores=2.0, device="cpu").distance(of(cores=2.0)) == 0.5
    both = Fingerprint({"hardware": {"cores": 1.0}, "engine": {"target": "a"}})
    other = replace(both, groups=MappingProxyType({"hardware": {"cores": 1.0}, "engine": {"target": "b"}}))
    assert both.distance(other) == WEIGHTS["engine"] / (WEIGHTS["engine"] + WEIGHTS["hardware"])


facts = st.dictionaries(st.sampled_from("abcd"), st.one_of(st.floats(0, 1e12), st.sampled_from(["x", "y"])), max_size=4)
fingerprints = st.builds(Fingerprint, st.dictionaries(st.sampled_from(list(WEIGHTS)), facts, max_size=6))


@given(fingerprints, fingerprints)
@settings(max_examples=50)
def test_distances_lie_between_0_and_1_are_symmetric_and_0_from_oneself(one: Fingerprint, other: Fingerprint) -> None:
    assert one.distance(one) == 0
    assert 0 <= one.distance(other) == other.distance(one) <= 1
