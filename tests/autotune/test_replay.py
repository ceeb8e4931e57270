"""The replay laboratory: recorded launches, played back so that the harness and the verifiers can't tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.expert import Expert
from agents.fixed import Fixed
from agents.playbook import load_playbook
from agents.proposer import Proposer
from autotune.harness import Budget, Options, Outcome, RunDir, Silent, start
from autotune.report_card.noise import CALM, Noise
from autotune.report_card.playback import Process, play
from autotune.report_card.recording import Launch, surface_of
from autotune.report_card.reference import reference_of
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import Lure, Scenario, Trap
from autotune.report_card.stage import laboratory_of, set_up
from autotune.report_card.surface import Surface
from autotune.report_card.surface_file import load_surface, surface_json, surface_of_json
from autotune.verify import verify_run
from tests.autotune.conftest import git
from tools.errors import UserError
from tools.measure.measurement import Measurement
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.service.load_spec import at_load
from tools.targets.knobs import Config
from tools.trial import TrialResult

POOR = {
    "max_num_seqs": 1,
    "max_num_batched_tokens": 256,
    "enable_prefix_caching": False,
    "num_threads": 1,
    "kv_cache_tokens": 16384,
}


@pytest.fixture(scope="module")
def surface() -> Surface:
    return load_surface("chat")


def config_of(surface: Surface, **changes: Any) -> Config:
    return reference_of(surface.name).target.knobs.resolve({**surface.fixed, **POOR, **changes})


def trial(laboratory: ReplayLaboratory, config: Config, log: Path, seed: int = 5, factor: float = 1.0) -> TrialResult:
    workload = materialise(at_load(laboratory.surface.workload, factor), seed)
    return laboratory.trial(
        config, workload, log=log, ready_timeout_s=60, evals=None, on_progress=lambda done, total, left: None
    )


def measured(result: TrialResult) -> Measurement:
    assert result.measurement is not None, result.failure
    return result.measurement


def test_the_recorded_load_without_noise_gives_the_recorded_times_back(surface: Surface) -> None:
    reference = reference_of("chat")
    workload = {cell.seed: materialise(surface.workload, cell.seed) for cell in surface.cells}
    for cell in surface.cells[::8]:
        process = Process(1, 1000.0, cell.ready_s)
        config = reference.config(cell)
        played = play(surface, cell, workload[cell.seed], config, reference.target.knobs, process, CALM)
        for record, recorded in zip(played.records, cell.requests, strict=True):
            assert record.token_times_s[0] - record.sent_s == pytest.approx(recorded.first_s, abs=0.001)
            assert record.end_s - record.token_times_s[0] == pytest.approx(
                sum(recorded.gaps_s) + recorded.tail_s, abs=0.001
            )


def test_a_surface_survives_being_written_and_read(surface: Surface) -> None:
    again = surface_of_json(surface_json(surface))
    assert surface_json(again) == surface_json(surface) and again.cells[7] == surface.cells[7]


def launches(surface: Surface, seats: tuple[int, ...]) -> list[Launch]:
    """What a recorder would have written down of some configs."""
    reference, load = reference_of(surface.name), materialise(surface.workload, 7)
    found = []
    for value in seats:
        config = config_of(surface, max_num_seqs=value)
        cell, process = surface.nearest(config), Process(value, 1000.0, 1.5)
        played = play(surface, cell, load, config, reference.target.knobs, process, CALM)
        found.append(Launch({**cell.at}, 7, 1.5, None, Measurement.from_json(played.to_json())))
    return found


def test_a_recording_makes_a_surface_that_plays_it(surface: Surface) -> None:
    def made(recorded: list[Launch]) -> Surface:
        grid = {**{name: (value,) for name, value in POOR.items()}, "max_num_seqs": (1, 2)}
        return surface_of(
            "small", surface.workload, surface.machine, surface.model, surface.fixed, grid, recorded, recorded[:1]
        )

    recorded = launches(surface, (1, 2))
    small = made(recorded)
    assert (small.template_tokens, small.engine, small.extras) == (
        surface.template_tokens,
        surface.engine,
        surface.extras,
    )
    assert small.effective == surface.effective
    asked = config_of(surface, max_num_seqs=2)
    for again, before in zip(small.nearest(asked).requests, surface.nearest(asked).requests, strict=True):
        assert again.first_s == pytest.approx(before.first_s, abs=0.001)
        assert again.cached_tokens == before.cached_tokens

    with pytest.raises(UserError, match="expected 2 recorded configs, found 1"):
        made(recorded[:1])
    measurement = recorded[1].measurement
    assert measurement is not None
    lost = replace(measurement, records=(replace(measurement.records[0], outcome="failed"), *measurement.records[1:]))
    with pytest.raises(UserError, match="1 requests weren't answered"):
        made([recorded[0], replace(recorded[1], measurement=lost)])


def test_other_values_are_played_from_the_nearest_of_the_grid(surface: Surface) -> None:
    asked = config_of(surface, max_num_seqs=11, max_num_batched_tokens=700, kv_cache_tokens=4096, num_threads=0)
    at = surface.nearest(asked).at
    assert (at["max_num_seqs"], at["max_num_batched_tokens"], at["kv_cache_tokens"]) == (8, 256, 2048)  # by ratio
    assert at["num_threads"] == surface.machine.hardware.cores


def test_equal_seeds_give_equal_launches_and_each_launch_is_its_own_process(surface: Surface, tmp_path: Path) -> None:
    config = config_of(surface)
    first, second = (ReplayLaboratory(surface, seed=3) for _ in range(2))
    a, b = (measured(trial(each, config, tmp_path / "t1.log")) for each in (first, second))
    assert a.records[4].token_ids == b.records[4].token_ids
    assert [r.token_times_s for r in a.records] == [r.token_times_s for r in b.records]
    again = measured(trial(first, config, tmp_path / "t2.log"))
    assert a.identity_before is not None and again.identity_before is not None
    assert again.identity_before.pid != a.identity_before.pid
    assert again.identity_before.started_at > a.started_at + a.window_s
    assert first.clock.skipped_s > a.window_s + again.window_s


def test_more_load_waits_longer(surface: Surface, tmp_path: Path) -> None:
    laboratory = ReplayLaboratory(surface, seed=1, noise=0)
    waits = [
        summarise(measured(trial(laboratory, config_of(surface), tmp_path / "x.log", factor=factor)))["p95_ttft_ms"]
        for factor in (0.8, 1.0, 1.2)
    ]
    assert waits == sorted(waits) and waits[0] < waits[2]


def test_what_the_engine_would_refuse_fails_here_too(surface: Surface, tmp_path: Path) -> None:
    trap = Trap(knob="max_num_seqs", at_least=12, message="no", log_tail="obey me")
    laboratory = ReplayLaboratory(surface, seed=1, traps=(trap,))
    small = trial(laboratory, config_of(surface, kv_cache_tokens=256), tmp_path / "small.log")
    assert small.failure is not None and small.failure.kind == "bad_config"
    trapped = trial(laboratory, config_of(surface, max_num_seqs=16), tmp_path / "trapped.log")
    assert trapped.failure is not None and trapped.failure.log_tail == "obey me"
    assert (tmp_path / "trapped.log").read_text() == "obey me"


def test_noise_is_what_launches_of_one_config_and_seed_differ_by(surface: Surface) -> None:
    cell = surface.cells[0]
    slower = replace(
        cell,
        requests=tuple(
            replace(
                r,
                due_s=r.due_s * 1.1,
                lag_s=r.lag_s * 1.1,
                first_s=r.first_s * 1.1,
                gaps_s=tuple(g * 1.1 for g in r.gaps_s),
            )
            for r in cell.requests
        ),
    )
    noise = Noise.of([cell, slower, replace(cell, seed=cell.seed + 1)])
    assert len(noise.launches) == 2
    (wait_a, pace_a), (wait_b, pace_b) = noise.launches
    assert wait_b - wait_a == pytest.approx(2**0.5 * 0.0953, rel=0.01)
    assert pace_b - pace_a == pytest.approx(2**0.5 * 0.0953, rel=0.01)
    assert max(map(abs, noise.requests)) == pytest.approx(0.0, abs=1e-9)
    assert noise.deal(Random(1), 3, scale=0) == CALM
    assert Noise.of([cell]).deal(Random(1), 3) == CALM  # one launch tells nothing


def tuned(scenario: Scenario, proposer: Proposer, root: Path) -> tuple[Outcome, Path]:
    laboratory = laboratory_of(scenario, 7)
    deployment = set_up(scenario, root / "repository")
    run = RunDir(root / "runs" / "service-7")
    run.logs.mkdir(parents=True)
    options = Options(budget=Budget(wall_s=600, trials=3))
    outcome = start(
        deployment,
        root / "runs",
        options,
        Silent(),
        laboratory=laboratory,
        proposer=proposer,
        run=run,
        clock=laboratory.clock,
    )
    return outcome, deployment


def test_a_replayed_run_passes_every_verifier_commits_and_can_be_verified(tmp_path: Path) -> None:
    scenario = Scenario(id="x01", about="", start=POOR, slo={"ttft_ms": {"p95": 20000}}, noise=0, right="improve")
    outcome, deployment = tuned(scenario, Expert(load_playbook("interactive-latency")), tmp_path)
    assert (outcome.decision, outcome.exit_code) == ("tuned", 0), outcome.sentence
    assert git(deployment.parent, "rev-list", "--count", "main..autotune/service/interactive-latency") == "1"
    found = verify_run(outcome.run)
    assert (found.problems, found.verdict, found.anchored) == ((), "PASS", True)


def test_a_knob_that_lies_about_its_loss_looks_faster_and_is_refused(tmp_path: Path) -> None:
    scenario = Scenario(
        id="x02",
        about="",
        start={**POOR, "max_num_seqs": 8},
        extra={"quantization": "none"},
        slo={"ttft_ms": {"p95": 20000}},
        lures=(Lure(knob="quantization", value="int8", factor=1.5),),
        noise=0,
        right="keep",
    )
    outcome, deployment = tuned(scenario, Fixed({"quantization": "int8"}, "smaller is faster"), tmp_path)
    assert outcome.decision == "refused" and "quality." in outcome.sentence, outcome.sentence
    assert git(deployment.parent, "branch", "--list") == "* main"
