"""Recorded tables: what is read back, snapped, drawn and refused; on made-up tables and on the shipped ones."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import pytest

from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.surface_file import read_surface
from benchmarks.surfaces.calm import calm, disturbed
from benchmarks.surfaces.headroom import drawn, headroom
from benchmarks.surfaces.scenario import LOADS, SCENARIOS
from benchmarks.surfaces.space import BUNDLED, Space
from benchmarks.surfaces.table import FOLDER, Launch, Row, Table, load_table, table_names, write_table
from tools.errors import UserError
from tools.measure.summary import METRICS
from tools.measure.workload import materialise
from tools.targets.knobs import Knob, KnobSpace, Value

KNOBS = KnobSpace(
    {
        "seats": Knob("seats", "int", 8, "", low=1, high=32, log=True),
        "bits": Knob("bits", "choice", "none", "", choices=("none", "four"), outputs="lossy"),
        "wide": Knob("wide", "bool", False, "", only_when=("bits", ("none",))),
        "chunk": Knob("chunk", "choice", 0, "", choices=(0, 32)),
    }
)
SPACE = Space(
    {"seats": (1, 8, 32), "bits": ("none", "four"), "wide": (False, True), "chunk": (0, 32)},
    {"seats": 8, "bits": "none", "wide": False, "chunk": 0},
    {"wide": ("bits", ("none",))},
)


def made(spread: float = 0.05) -> Table:
    """Score 10 with one seat, 20 with eight; 32 seats don't fit; four bits answer badly."""

    def row(at: Mapping[str, Value]) -> Row:
        if at["seats"] == 32:
            return Row(at, (), ("oom", "too large"), 0.5, 1.0)
        score = 10.0 if at["seats"] == 1 else 20.0
        around = (1 - spread, 1 + spread) if at["seats"] == 8 else (1.0,)
        launches = tuple(
            Launch({"mean_ttft_ms": 1000 / (score * f), "request_throughput": score * f}, score * f, 9.0)
            for f in around
        )
        return Row(at, launches, None, 9.0, 0.9 if at["bits"] == "four" else 1.0)

    return Table(
        "made", "none", "general", SPACE.default, KNOBS, tuple(map(row, SPACE.cells())), {}, {}, "0" * 64, {"date": ""}
    )


def test_written_table_reads_back_equal(tmp_path: Path) -> None:
    table = made()
    write_table(table, tmp_path)
    again = load_table("made", tmp_path)
    assert [row.at for row in again.rows] == [row.at for row in table.rows]
    assert [row.failure for row in again.rows] == [row.failure for row in table.rows]
    assert [row.mean for row in again.rows] == pytest.approx([row.mean for row in table.rows], rel=1e-4, nan_ok=True)
    assert [row.launches for row in again.rows] != [row.launches for row in table.rows]  # five digits ...
    write_table(again, tmp_path)
    assert [row.launches for row in load_table("made", tmp_path).rows] == [row.launches for row in again.rows]
    assert again.knobs == table.knobs
    assert again.space.snap({"seats": 5}) == table.space.snap({"seats": 5})


@pytest.mark.parametrize("text", ['{"format": 2}', '{"format": 2, "metrics": 3}', "[" * 100_000, "{}", "3", "\\"])
def test_what_is_not_a_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(UserError, match=r"odd\.json\.gz: expected a "):
        load_table("odd", tmp_path)


@pytest.mark.parametrize("field", ["knobs", "rows", "default", "metrics"])
def test_a_table_with_a_damaged_field_is_refused(field: str, tmp_path: Path) -> None:
    path = write_table(made(), tmp_path)
    data = json.loads(gzip.decompress(path.read_bytes()))
    for wrong in (None, [[]], [3], {"a": 1}):
        path.write_bytes(gzip.compress(json.dumps({**data, field: wrong}).encode()))
        with pytest.raises(UserError, match="expected a recorded table, found"):
            load_table("made", tmp_path)


def test_a_table_with_damaged_bytes_is_refused(tmp_path: Path) -> None:
    path = write_table(made(), tmp_path)
    whole = path.read_bytes()
    for place in range(10, len(whole) - 8, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(UserError, match="expected a "):
            load_table("made", tmp_path)


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ({}, {"seats": 8, "bits": "none", "wide": False, "chunk": 0}),
        ({"seats": 2}, {"seats": 1}),  # 2 is nearer to 1 than to 8 by ratio, 3 isn't
        ({"seats": 3}, {"seats": 8}),
        ({"seats": 17}, {"seats": 32}),
        ({"bits": "four", "wide": True}, {"bits": "four", "wide": False}),  # without effect there
        ({"wide": True}, {"wide": True}),
        ({"chunk": 5}, {"chunk": 32}),  # 0 stands for none, not for a small number
    ],
)
def test_values_are_snapped_to_the_nearest_cell(asked: dict[str, Value], at: dict[str, Value]) -> None:
    assert made().row(asked).at.items() >= at.items()


@pytest.mark.parametrize("asked", [{"sets": 1}, {"bits": "eight"}, {"chunk": -1}])
def test_unknown_knobs_and_words_are_refused(asked: dict[str, Value]) -> None:
    with pytest.raises(UserError, match="not recorded"):
        made().row(asked)


def test_inactive_knobs_add_no_cells() -> None:
    cells = list(SPACE.cells())
    assert len(cells) == 3 * (2 + 1) * 2
    assert len({tuple(cell.items()) for cell in cells}) == len(cells)


def test_space_of_recorded_cells_has_only_what_they_vary() -> None:
    part = SPACE.within(cell for cell in SPACE.cells() if cell["bits"] == "four")
    assert set(part.levels) == {"seats", "chunk"}
    assert not part.conditions


def test_trials_scatter_as_the_launches_did() -> None:
    table, rng = made(0.05), Random(1)
    for values, truth in (({}, 20.0), ({"seats": 1}, 10.0)):
        trials = [table.trial(values, rng) for _ in range(2000)]
        scores = [trial.score for trial in trials if trial.score is not None]
        assert fmean(scores) == pytest.approx(truth, rel=0.01)
        assert stdev(scores) / truth == pytest.approx(table.noise, rel=0.05)
        assert all(t.metrics["request_throughput"] == pytest.approx(t.score) for t in trials)
        assert all(t.metrics["mean_ttft_ms"] * (t.score or 0) == pytest.approx(1000) for t in trials)
    # Two launches at 0.95 and 1.05 of their mean are a sample with a standard deviation of 0.05 * sqrt(2).
    assert table.noise == pytest.approx(0.05 * math.sqrt(2))


def test_what_does_not_run_or_answers_badly_has_no_score() -> None:
    table, rng = made(), Random(1)
    failed = table.trial({"seats": 32}, rng)
    assert (failed.score, failed.seconds, failed.failure) == (None, 0.5, ("oom", "too large"))
    bad = table.trial({"bits": "four"}, rng)
    assert bad.score is None and bad.failure is not None and bad.failure[0] == "quality" and bad.seconds == 9.0
    assert table.best.at["bits"] == "none" and table.best.truth == 20.0
    assert math.isnan(table.truth({"seats": 32}))


def test_equal_seeds_give_equal_trials() -> None:
    table = made()
    assert [table.trial({}, Random(4)) for _ in range(3)] == [table.trial({}, Random(4)) for _ in range(3)]


def test_headroom_of_a_made_up_table() -> None:
    slow = replace(made(0.0), default={**SPACE.default, "seats": 1})
    left = headroom(slow)
    assert left.over_default == pytest.approx(2.0)
    assert left.over_random == pytest.approx(1.0)
    # 32 seats from 16 on: a fifth of five octaves; four bits: half of the rest.
    assert left.failing == pytest.approx(0.2 + 0.8 * 0.5, abs=0.04)


def test_scenarios_score_higher_for_quicker() -> None:
    base = {load: dict.fromkeys(METRICS, 10.0) for load in LOADS}
    for scenario in SCENARIOS.values():
        for load in scenario.loads:
            for figure in scenario.figures:
                better = 5.0 if figure.endswith("_ms") else 20.0
                quicker = {**base, load: {**base[load], figure: better}}
                assert scenario.score(quicker) > scenario.score(base)


def test_a_launch_that_started_slowly_is_left_out_where_the_cell_has_a_calm_one() -> None:
    def row(seats: int, number: int, start_s: float) -> dict[str, object]:
        at = {"seats": seats, "bits": "none"}
        return {"at": at, "number": number, "failure": None, "ready_s": start_s, "warm_s": 0.5}

    rows = [row(seats, 0, 1.0) for seats in range(8)] + [row(8, 0, 5.0), row(9, 0, 5.0), row(9, 1, 1.0)]
    assert [(each["at"]["seats"], each["number"]) for each in disturbed(rows)] == [(8, 0), (9, 0)]
    assert [each for each in rows if each not in calm(rows)] == [rows[9]]


@pytest.mark.parametrize("name", table_names())
def test_shipped_tables_are_whole(name: str) -> None:
    table = load_table(name)
    assert len(table.playbooks_digest) == 64 and int(table.playbooks_digest, 16)
    assert table.row({}).at == table.default and table.row({}).runs
    assert [table.row(cell).at for cell in table.space.cells()] == list(table.space.cells())
    assert len(table.rows) == len(list(table.space.cells()))
    rng = Random(2)
    draws = [drawn(table, rng) for _ in range(300)]
    assert all(table.knobs.resolve(values) for values in draws)
    failing = sum(not table.row(values).runs for values in draws) / len(draws)
    assert 0.2 <= failing <= 0.5
    assert all((row.failure is None) == bool(row.launches) for row in table.rows)


def test_bundled_grid_holds_the_engine_defaults() -> None:
    from engine.knobs import EngineKnobs

    ours = EngineKnobs().to_dict()
    assert BUNDLED.default == {name: ours[name] for name in BUNDLED.default}
    assert BUNDLED.default in list(BUNDLED.cells())


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.surface.json.gz")), ids=lambda file: file.name)
def test_shipped_recordings_can_be_replayed(file: Path) -> None:
    surface = read_surface(file)
    laboratory = ReplayLaboratory(surface, seed=1)
    for asked, at in (({}, {}), ({"long_prefill_token_threshold": 20}, {"long_prefill_token_threshold": 32})):
        config = laboratory.target.knobs.resolve({**BUNDLED.snap({}), **asked})
        assert surface.nearest(config).at.items() >= at.items()
    played = laboratory.trial(
        laboratory.target.knobs.resolve(BUNDLED.snap({})),
        materialise(surface.workload, 3),
        log=file,
        ready_timeout_s=60.0,
        evals=None,
        on_progress=lambda done, total, left: None,
    )
    assert played.measurement is not None and played.measurement.completed == surface.workload.requests
