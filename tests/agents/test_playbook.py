"""A playbook is read strictly: what it misspells is named, with its hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import Playbook, load_playbook
from agents.advice import advise, advise_all
from agents.view import HARDWARE_FACTS, WORKLOAD_FACTS
from engine.knobs import knob_table
from tests.agents.views import SPACE, WORKLOAD, make_view
from tools.errors import UserError

MINIMAL: Mapping[str, Any] = {
    "name": "mine",
    "goal": "faster",
    "allowed_actions": ["propose", "finish"],
    "define": {"load": "workload.rate_rps * 2"},
    "hypotheses": [
        {
            "id": "more-seats",
            "when": "load > config.max_num_seqs",
            "try": {"max_num_seqs": "pow2(load)"},
            "expect": {"p95_ttft_ms": "lower"},
            "why": "They queue.",
        }
    ],
    "verifiers": ["policy"],
}


def write(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}))
    return path


def hypothesis(**changes: Any) -> list[dict[str, Any]]:
    return [{**MINIMAL["hypotheses"][0], **changes}]


def test_the_shipped_playbook_fits_the_engine(playbook: Playbook) -> None:
    playbook.check_knobs({row.name: row.default for row in knob_table()})
    assert {"propose", "search", "finish"} <= set(playbook.allowed_actions)


def test_the_page_lists_every_fact_and_shows_a_playbook_that_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    assert all(f"`{fact}`" in page for fact in (*WORKLOAD_FACTS, *HARDWARE_FACTS))
    path = tmp_path / "shown.yaml"
    path.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert [shown.id for shown in load_playbook(path).hypotheses] == ["seats-for-the-load"]


def test_a_path_is_read_as_well_as_a_name(tmp_path: Path) -> None:
    assert load_playbook(write(tmp_path)).name == "mine"
    assert load_playbook(str(write(tmp_path))).name == "mine"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hypothesis": []}, "unknown key; did you mean 'hypotheses'"),
        ({"hypotheses": hypothesis(when="load > confg.max_num_seqs")}, "more-seats: unknown name 'confg.max_num_seqs'"),
        ({"hypotheses": hypothesis(when="workload.rate > 1")}, "did you mean 'workload.rate_rps'"),
        ({"hypotheses": hypothesis(when="metrics.p95_ttft > 1")}, "did you mean 'metrics.p95_ttft_ms'"),
        ({"hypotheses": hypothesis(when="lod > 1")}, "more-seats: unknown name 'lod'"),
        ({"hypotheses": hypothesis(when="load >")}, "more-seats.when: .*can't be read"),
        ({"hypotheses": hypothesis(when="load ** 99 > 1")}, "more-seats.when: .*Pow has no place"),
        ({"hypotheses": hypothesis(expect={"p95_ttft": "lower"})}, "more-seats.*unknown metric 'p95_ttft'"),
        ({"hypotheses": hypothesis() + hypothesis()}, "more-seats: this id is used twice"),
        ({"define": {"a": "b + 1", "b": "1"}}, "define.a: unknown name 'b'"),
        ({"allowed_actions": ["shell"]}, "allowed_actions"),
        ({"explore_share": 0}, "explore_share"),
        ({"verifiers": []}, "verifiers"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_playbook(write(tmp_path, **changes))


def test_what_is_no_playbook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected one of interactive-latency"):
        load_playbook("interactive-latncy")
    with pytest.raises(UserError, match="none that can be read"):
        load_playbook(tmp_path / "absent.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(UserError, match="not YAML"):
        load_playbook(tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(UserError, match="not a valid playbook"):
        load_playbook(tmp_path / "list.yaml")


def test_an_unknown_knob_names_the_hypothesis_and_the_nearest_knob(tmp_path: Path) -> None:
    playbook = load_playbook(write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_sequences": 8}})))
    with pytest.raises(UserError, match=r"more-seats: unknown knob .*did you mean 'max_num_seqs'"):
        playbook.check_knobs(SPACE.resolve({}).values)


def test_a_hypothesis_holds_or_not_by_the_facts(tmp_path: Path) -> None:
    playbook = load_playbook(write(tmp_path))
    view = make_view({"max_num_seqs": 2})
    assert [a.patch for a in advise(playbook, view, view.baseline.values, {})] == [{"max_num_seqs": 8}]
    roomy = make_view({"max_num_seqs": 8})
    assert list(advise(playbook, roomy, roomy.baseline.values, {})) == []


@pytest.mark.parametrize("missing", ["space", "workload"])
def test_a_fixed_knob_or_an_unknown_fact_passes_the_hypothesis_over(tmp_path: Path, missing: str) -> None:
    playbook = load_playbook(write(tmp_path))
    without = {
        "space": SPACE.only(frozenset({"block_size"})),
        "workload": {name: fact for name, fact in WORKLOAD.items() if name != "rate_rps"},
    }
    view = make_view({"max_num_seqs": 2}, **{missing: without[missing]})
    assert list(advise(playbook, view, view.baseline.values, {})) == []


def test_a_worked_out_number_is_fitted_and_a_written_one_is_not(tmp_path: Path) -> None:
    view = make_view({"max_num_seqs": 2, "block_size": 64})
    fitted = load_playbook(
        write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": "1e6", "block_size": "20"}}))
    )
    assert [a.patch for a in advise(fitted, view, view.baseline.values, {})] == [
        {"max_num_seqs": 512, "block_size": 16}
    ]
    written = load_playbook(write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": 1_000_000}})))
    with pytest.raises(UserError, match="more-seats: knob max_num_seqs: expected 1 to 512"):
        list(advise(written, view, view.baseline.values, {}))


def test_together_each_hypothesis_sees_what_came_before_it(playbook: Playbook) -> None:
    """Ten requests in the system, two seats, room for 1024 tokens: the room is too small only once there are seats."""
    view = make_view({"max_num_seqs": 2, "kv_cache_tokens": 1024})
    metrics = {"mean_e2el_ms": 2500.0}
    alone = {a.hypothesis.id: a.patch for a in advise(playbook, view, view.baseline.values, metrics)}
    together = {a.hypothesis.id: a.patch for a in advise_all(playbook, view, view.baseline.values, metrics)}
    assert alone["room-for-the-seats"] == {"kv_cache_tokens": 2048}
    assert together["seats-for-the-load"] == {"max_num_seqs": 16}
    assert together["room-for-the-seats"] == {"kv_cache_tokens": 8192}
