"""A playbook is read strictly: what it misspells is named, with its hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from agents import Playbook, load_playbook
from agents.actions import ACTION_KINDS
from agents.advice import advise, advise_all
from agents.engines import FOREIGN, EngineName
from agents.expression import FUNCTIONS
from agents.playbook import KNOB_GROUPS, Hypothesis, Stop, playbook_names, playbooks_digest
from agents.playbook_check import CHECKS
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


@pytest.mark.parametrize("name", playbook_names())
def test_a_shipped_playbook_fits_the_engines(name: str) -> None:
    playbook = load_playbook(name)
    assert playbook.name == name
    playbook.check_knobs({row.name: row.default for row in knob_table()})
    for engine, space in FOREIGN.items():
        playbook.check_knobs({knob.name: knob.default for knob in space}, engine)
    assert {"propose", "search", "finish"} <= set(playbook.allowed_actions)


def test_the_page_lists_every_key_fact_and_function_and_shows_playbooks_that_load(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "playbooks.md").read_text()
    keys = [field.alias or name for model in (Playbook, Hypothesis, Stop) for name, field in model.model_fields.items()]
    named = (*keys, "borrow", *WORKLOAD_FACTS, *HARDWARE_FACTS, *FUNCTIONS, *CHECKS, *playbook_names(), *ACTION_KINDS)
    assert [name for name in named if f"`{name}`" not in page] == []
    assert [group for group in KNOB_GROUPS if f"`{group}.<knob>`" not in page] == []
    assert [engine for engine in get_args(EngineName) if f"`{engine}`" not in page] == []
    shown = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    for index, text in enumerate(shown):
        path = tmp_path / f"shown{index}.yaml"
        path.write_text(text)
        assert load_playbook(path).hypotheses
    assert len(shown) == 1


def test_who_may_search_may_say_where_and_who_may_inspect_may_ask(tmp_path: Path) -> None:
    assert load_playbook(write(tmp_path)).allowed_actions == ("propose", "finish")
    more = load_playbook(write(tmp_path, allowed_actions=["search", "inspect", "weigh"]))
    assert sorted(more.allowed_actions) == ["inspect", "profile", "search", "weigh"]


def test_the_digest_covers_every_playbook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = playbooks_digest()
    assert before == playbooks_digest()
    for name in ("interactive-latency", "cold-start"):
        (tmp_path / f"{name}.yaml").write_text("name: x\n")
    monkeypatch.setattr("agents.playbook.resources.files", lambda _: tmp_path)
    one = playbooks_digest()
    (tmp_path / "cold-start.yaml").write_text("name: y\n")
    two = playbooks_digest()
    (tmp_path / "cold-start.yaml").rename(tmp_path / "warm-start.yaml")
    assert len({before, one, two, playbooks_digest()}) == 4


def test_what_is_borrowed_comes_first_with_its_definitions(tmp_path: Path) -> None:
    own = write(tmp_path, borrow={"interactive-latency": ["room-for-the-seats", "share-the-prefix"]})
    playbook = load_playbook(own)
    assert [each.id for each in playbook.hypotheses] == ["room-for-the-seats", "share-the-prefix", "more-seats"]
    assert {"in_flight", "most_room", "load"} <= playbook.define.keys()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"borrow": {"interactive-latncy": []}}, "did you mean 'interactive-latency'"),
        ({"borrow": {"interactive-latency": ["share-prefix"]}}, "did you mean 'share-the-prefix'"),
        ({"borrow": ["interactive-latency"]}, "borrow: expected playbook: .ids."),
        ({"borrow": {"interactive-latency": []}, "define": {"in_flight": "1"}}, "define.in_flight: .*something else"),
        ({"borrow": {"interactive-latency": ["all-cores"] * 2}}, "all-cores: this id is used twice"),
        ({"hypotheses": hypothesis(**{"for": ["vlm"]})}, "more-seats.for.0: "),
    ],
)
def test_what_cannot_be_borrowed_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_playbook(write(tmp_path, **{"hypotheses": [], "define": {}, **changes}))


def test_another_engines_knobs_are_no_typos_and_are_passed_over_here(tmp_path: Path) -> None:
    theirs = hypothesis(**{"for": ["llamacpp"], "when": "config.parallel < 4", "try": {"parallel": 4}})
    playbook = load_playbook(write(tmp_path, hypotheses=theirs))
    view = make_view()
    playbook.check_knobs(view.baseline.values)
    assert list(advise(playbook, view, view.baseline.values, {})) == []
    misspelt = load_playbook(write(tmp_path, hypotheses=hypothesis(**{"for": ["llamacpp"], "try": {"paralel": 4}})))
    with pytest.raises(UserError, match=r"more-seats: unknown knob 'paralel'.*'parallel'"):
        misspelt.check_knobs({"parallel": 1, "max_num_seqs": 1}, "llamacpp")


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
    with pytest.raises(UserError, match="did you mean 'interactive-latency'"):
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


def test_a_number_is_brought_to_the_nearest_that_the_knob_takes_here(tmp_path: Path) -> None:
    view = make_view({"max_num_seqs": 2, "block_size": 64})
    fitted = load_playbook(
        write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": "1e6", "block_size": "20"}}))
    )
    assert [a.patch for a in advise(fitted, view, view.baseline.values, {})] == [
        {"max_num_seqs": 512, "block_size": 16}
    ]
    written = load_playbook(write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": 1_000_000}})))
    assert [a.patch for a in advise(written, view, view.baseline.values, {})] == [{"max_num_seqs": 512}]


def test_a_word_for_a_number_is_an_error(tmp_path: Path) -> None:
    wrong = load_playbook(write(tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": "'many'"}})))
    with pytest.raises(UserError, match="more-seats: knob max_num_seqs: expected a whole number"):
        list(advise(wrong, view := make_view({"max_num_seqs": 2}), view.baseline.values, {}))


def test_what_is_to_be_tried_alone_is_not_among_the_rest(tmp_path: Path) -> None:
    playbook = load_playbook(write(tmp_path, hypotheses=hypothesis(alone=True)))
    view = make_view({"max_num_seqs": 2})
    assert len(list(advise(playbook, view, view.baseline.values, {}))) == 1
    assert advise_all(playbook, view, view.baseline.values, {}) == ()


def test_the_bounds_of_this_deployment_are_facts(tmp_path: Path) -> None:
    playbook = load_playbook(
        write(
            tmp_path, hypotheses=hypothesis(**{"try": {"max_num_seqs": "(least.max_num_seqs + most.max_num_seqs) / 2"}})
        )
    )
    view = make_view({"max_num_seqs": 2})
    assert [a.patch for a in advise(playbook, view, view.baseline.values, {})] == [{"max_num_seqs": 256}]


def test_together_each_hypothesis_sees_what_came_before_it(playbook: Playbook) -> None:
    """Ten requests in the system, two seats, room for 1024 tokens: the room is too small only once there are seats."""
    view = make_view({"max_num_seqs": 2, "kv_cache_tokens": 1024})
    metrics = {"mean_e2el_ms": 2500.0}
    alone = {a.hypothesis.id: a.patch for a in advise(playbook, view, view.baseline.values, metrics)}
    together = {a.hypothesis.id: a.patch for a in advise_all(playbook, view, view.baseline.values, metrics)}
    assert alone["room-for-the-seats"] == {"kv_cache_tokens": 2048}
    assert together["seats-for-the-load"] == {"max_num_seqs": 16}
    assert together["room-for-the-seats"] == {"kv_cache_tokens": 8192}
