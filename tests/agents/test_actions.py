"""Actions are closed: what isn't listed can't be said."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import ActionError, Finish, Inspect, Measure, Propose, Search, View, action_schema, parse_action
from agents.actions import ACTION_KINDS, check_action
from tests.agents.views import SPACE, make_view, trial

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("kind"), inner, max_size=4),
    max_leaves=12,
)


def test_an_action_is_read_wrapped_or_bare() -> None:
    data = {"kind": "propose", "patch": {"max_num_seqs": 16, "block_size": None}, "hypothesis": "more seats"}
    assert parse_action(data) == parse_action({"action": data})
    assert parse_action(data) == Propose(patch={"max_num_seqs": 16}, hypothesis="more seats")


def test_values_keep_their_type() -> None:
    patch = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    action = parse_action({"kind": "propose", "patch": patch, "hypothesis": ""})
    assert isinstance(action, Propose)
    assert {name: type(value) for name, value in action.patch.items()} == {"a": bool, "b": int, "c": float, "d": str}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "finish",
        {},
        {"kind": "shell", "command": "true"},
        {"kind": "propose", "patch": {}, "hypothesis": "nothing"},
        {"kind": "propose", "patch": {"a": float("nan")}, "hypothesis": ""},
        {"kind": "propose", "patch": {"a": {"b": 1}}, "hypothesis": ""},
        {"kind": "propose", "patch": {"a": 1}, "hypothesis": "x" * 401},
        {"kind": "propose", "patch": {"a": 1}, "hypothesis": "", "measured": 12.0},
        {"kind": "search", "trials": 9},
        {"kind": "finish", "reason": "done", "verdict": "PASS"},
        {"kind": "propose", "patch": {"a": 1}, "hypothesis": "", "expect": {"p95_ttft": "lower"}},
        {"kind": "propose", "patch": {"a": 1}, "hypothesis": "", "expect": {"p95_ttft_ms": "better"}},
        {"kind": "weigh", "regions": []},
        {"kind": "weigh", "regions": [{"knob": "a", "weight": 0.5}]},
        {"kind": "weigh", "regions": [{"knob": "a", "low": 1, "high": 2, "weight": 1.5}]},
        {"kind": "weigh", "regions": [{"knob": "a", "low": 3, "high": 2, "weight": 0.5}]},
        {"kind": "weigh", "regions": [{"knob": "a", "low": 3, "values": [4], "weight": 0.5}]},
        {"kind": "profile", "subject": "/etc/passwd"},
        {"kind": "inspect", "trial": "t0", "subject": "environment"},
    ],
)
def test_anything_else_is_refused(data: object) -> None:
    with pytest.raises(ActionError):
        parse_action(data)


@given(json_values)
def test_no_json_makes_the_reader_fail_in_another_way(data: object) -> None:
    try:
        parse_action(data)
    except ActionError as error:
        assert str(error)


def test_cost_and_effect_are_declared() -> None:
    assert (Search(trials=5).cost, Search(trials=5).effect) == (5, "measure")
    assert (Propose(patch={"a": 1}, hypothesis="").cost, Measure(trial="t").cost) == (1, 1)
    assert (Inspect(trial="t").cost, Inspect(trial="t").effect) == (0, "read")
    assert (Finish(reason="").cost, Finish(reason="").effect) == (0, "read")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"kind": "propose", "patch": {"max_num_sqs": 4}, "hypothesis": ""}, "did you mean 'max_num_seqs'"),
        ({"kind": "propose", "patch": {"max_num_seqs": 4096}, "hypothesis": ""}, "expected 1 to 512"),
        ({"kind": "propose", "patch": {"max_num_seqs": "4; reboot"}, "hypothesis": ""}, "whole number"),
        ({"kind": "propose", "patch": {"max_queue_len": 4}, "hypothesis": ""}, "is fixed here"),
        ({"kind": "propose", "patch": {"max_num_seqs": 2}, "hypothesis": ""}, "what the baseline says"),
        ({"kind": "propose", "patch": {"max_num_seqs": 8}, "hypothesis": ""}, "tried as t1"),
        ({"kind": "measure", "trial": "t9"}, "no trial 't9'"),
        ({"kind": "search", "trials": 8}, "3 are left"),
        ({"kind": "weigh", "regions": [{"knob": "max_num_sqs", "low": 4, "weight": 1}]}, "did you mean"),
        ({"kind": "weigh", "regions": [{"knob": "max_queue_len", "low": 4, "weight": 1}]}, "is fixed here"),
        ({"kind": "weigh", "regions": [{"knob": "block_size", "low": 4, "weight": 1}]}, "give `values`"),
        ({"kind": "weigh", "regions": [{"knob": "block_size", "values": [12], "weight": 1}]}, "one of"),
        ({"kind": "finish", "reason": ""}, "not allowed"),
    ],
)
def test_what_makes_no_sense_here_is_refused_with_the_way_out(data: dict[str, Any], says: str) -> None:
    view = make_view({"max_num_seqs": 2}, trial("t0", {}, 900.0), trial("t1", {"max_num_seqs": 8}, 800.0))
    view = make_view({"max_num_seqs": 2}, *view.trials, trials_left=3)
    with pytest.raises(ActionError, match=says):
        check_action(parse_action(data), view, ["propose", "search", "measure", "weigh"])


def test_the_schema_is_closed_and_strict(view: View) -> None:
    schema = action_schema(ACTION_KINDS, SPACE, ["t0"], ["p95_ttft_ms"])
    assert schema["type"] == "object", "strict structured output takes no union at the root"

    def closed(node: object) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert sorted(node["required"]) == sorted(node["properties"])
            for inner in node.values():
                closed(inner)
        elif isinstance(node, list):
            for inner in node:
                closed(inner)

    closed(schema)
    variants = {v["properties"]["kind"]["enum"][0]: v for v in schema["properties"]["action"]["anyOf"]}
    assert set(variants) == set(ACTION_KINDS)
    patch = variants["propose"]["properties"]["patch"]["properties"]
    assert "max_queue_len" not in patch
    assert (patch["max_num_seqs"]["minimum"], patch["max_num_seqs"]["maximum"]) == (1, 512)
    assert patch["block_size"]["enum"] == [8, 16, 32, 64, None]
    assert variants["propose"]["properties"]["expect"]["properties"]["p95_ttft_ms"]["enum"] == ["lower", "higher", None]


def test_what_the_schema_allows_is_read(view: View) -> None:
    """A model that is held to the schema is understood at the first try."""
    schema = jsonschema_rs.validator_for(action_schema(ACTION_KINDS, SPACE, ["t0"], ["p95_ttft_ms"]))
    patch = {knob.name: None for knob in SPACE if knob.tunable} | {"max_num_seqs": 16}
    region = {"knob": "block_size", "low": None, "high": None, "values": [16, 32], "weight": 0.5, "why": ""}
    for action in (
        {"kind": "propose", "patch": patch, "hypothesis": "", "expect": {"p95_ttft_ms": None}},
        {"kind": "search", "trials": 2, "why": ""},
        {"kind": "measure", "trial": "t0"},
        {"kind": "weigh", "regions": [region]},
        {"kind": "inspect", "trial": "t0", "subject": "log"},
        {"kind": "profile", "subject": "roofline"},
        {"kind": "finish", "reason": ""},
    ):
        assert schema.is_valid({"action": action}), action["kind"]
        check_action(parse_action({"action": action}), view, ACTION_KINDS)


def test_the_schema_offers_only_what_is_allowed_and_possible() -> None:
    kinds = action_schema(["propose", "measure"], SPACE)["properties"]["action"]["anyOf"]
    assert [variant["properties"]["kind"]["enum"] for variant in kinds] == [["propose"]], "no trial to measure again"
