"""Values: whatever is proposed survives a command line, an environment and a YAML file, or is refused."""

from __future__ import annotations

import shlex
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifiers.conftest import SPACE, Confirmation
from tests.verifiers.proposals import faults, proposing
from tools.deployment import Deployment
from tools.manifests.yaml_file import YamlFile
from tools.targets.knobs import Value
from verifiers import Evidence
from verifiers.rules.proposal import policy_values


@pytest.mark.parametrize(
    "value",
    [
        "256; curl evil",
        "$(reboot)",
        "`id`",
        "a\nb",
        "a b",
        "-x",
        "--flag",
        "&anchor",
        "*alias",
        "!!str x",
        "a: b",
        "{a: 1}",
        "# autotune: managed",
        "\x1b[2J",
        "\u202e",
        "é",
        "",
        "x" * 300,
        "1e5",
        "010",
        "1:30",
        "on",
        "yes",
        "Off",
        "null",
        "~",
        ".inf",
        ".nan",
        "true",
        "5",
        "1_000",
        "2026-01-01",
        "=",
        "@at",
        "%d",
        float("inf"),
        float("nan"),
        2**64,
    ],
)
def test_a_value_that_means_something_elsewhere_is_refused_by_this_rule_alone(
    confirmation: Confirmation, value: Any
) -> None:
    evidence = replace(proposing(confirmation(), "policy", "b"), patch={"policy": value})
    assert faults(evidence) == {"policy.values": "FAIL"}


@pytest.mark.parametrize("name", ["a\nb", "a: 1", "-x", "a b", "ключ", "", "x" * 99])
def test_a_name_is_a_name(confirmation: Confirmation, name: str) -> None:
    assert policy_values.verify(replace(confirmation(), patch={name: 1})).status == "FAIL"


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_what_is_no_scalar_is_refused(confirmation: Confirmation, value: Any) -> None:
    assert policy_values.verify(replace(confirmation(), patch={"policy": value})).status == "FAIL"


@pytest.mark.parametrize("value", [True, False, 0, -1, 8192, 0.9, 1e-5, 1e16, -0.5, "fcfs", "fp8_e4m3", "a=b", "x,y"])
def test_ordinary_values_pass(confirmation: Confirmation, value: Value) -> None:
    assert policy_values.verify(replace(confirmation(), patch={"policy": value})).status == "PASS"


SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.text(max_size=12),
    st.text(string.printable, max_size=12),
    st.text("0123456789eE.+-_:xonyfaltrue~#&*!", max_size=6),
    st.booleans(),
    st.integers(),
    st.floats(),
)
DEPLOYMENT_TEXT = "config:\n  policy: 0  # autotune: managed\n  other: 1\n"


@settings(max_examples=300, deadline=None)
@given(value=SCALARS)
def test_any_junk_survives_everywhere_or_is_refused(value: Value) -> None:
    evidence = Evidence(
        deployment=_DEPLOYMENT,
        managed=frozenset({"policy"}),
        space=SPACE,
        baseline=SPACE.resolve({}),
        workload_spec_digest="",
        memory_bytes=1,
        floors_ms={},
        model_digest="",
        patch={"policy": value},
    )
    if policy_values.verify(evidence).status != "PASS":
        return
    text = YamlFile.parse(Path("d"), DEPLOYMENT_TEXT).splice({("config", "policy"): value})
    for loaded in (YamlFile.parse(Path("d"), text).data, yaml.safe_load(text)):
        again = loaded["config"]["policy"]
        assert type(again) is type(value) and again == value and loaded["config"]["other"] == 1
    assert shlex.split(f"serve --policy {value}") == ["serve", "--policy", str(value)]
    if isinstance(value, str):
        assert yaml.safe_load(f"policy: {value}") == {"policy": value}


_DEPLOYMENT = Deployment.model_validate(
    {
        "name": "chat",
        "model": "tiny",
        "config": {},
        "workload": {
            "requests": 1,
            "prompt_tokens": {"min": 10, "max": 20},
            "output_tokens": 8,
            "arrivals": {"kind": "burst"},
        },
    }
)
