"""The tables' files: rows that contradict one another are refused by name, and versions pick their rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.engines import FOREIGN
from agents.playbook import load_playbook
from tools.errors import UserError
from tools.targets.engine_name import EngineName
from tools.targets.tables import KnobTable, parse_table, table_file, table_for
from tools.targets.tables.versions import VersionRange, parse_version
from verifiers.rules.proposal.denied import LOADING, RESOURCES, SECURITY

ENGINES: tuple[EngineName, ...] = ("vllm", "sglang", "llamacpp")
SEATS = "{name: seats, flag: --seats, kind: int, low: 1, high: 8, default: 4, meaning: Seats.}"


def table(*rows: str, more: str = "") -> str:
    return f"engine: own\nabout: a test\nknown: ['1.0', '2.0']\n{more}knobs:\n" + "".join(
        f"  - {row}\n" for row in rows
    )


def tables() -> Iterator[KnobTable]:
    for engine in ENGINES:
        yield from (table_for(engine, version) for version in table_file(engine).known)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (table(SEATS, SEATS), "two rows of the same versions are called seats"),
        (table(SEATS, SEATS.replace("name: seats", "name: chairs")), "seats and chairs share --seats"),
        (table(SEATS.replace("default: 4", "default: 9")), "knob seats: .*expected 1 to 8, found 9"),
        (table(SEATS.replace("default: 4", "default: 4, usual: 4")), "knob seats: .*either a default or"),
        (table(SEATS.replace("default: 4", "usual: 4.5")), "expected a whole number, found 4.5"),
        (table(SEATS.replace("high: 8, ", "")), "a number needs low and high"),
        (table(SEATS.replace("--seats,", "--seats, only_when: {mode: [fast]},")), "only_when names mode"),
        (table(SEATS.replace("kind:", "sort:")), "knob seats.sort: Extra"),
        (table(SEATS.replace("flag: --seats,", "")), "expected a flag or a variable"),
        (table(SEATS.replace("--seats,", "--seats, versions: '>=2,<1',")), "no version is within"),
        (
            table(SEATS, more="forbidden: [{why: loads code, flags: [--seats]}]\n"),
            "--seats is forbidden, and the flag of seats",
        ),
        ("knobs: [", "not YAML"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_table(text, "own.yaml")


def test_rows_of_other_versions_may_share_a_name_and_each_version_has_its_own() -> None:
    renamed = SEATS.replace("--seats,", "--places, versions: '>=2',")
    file = parse_table(table(SEATS.replace("--seats,", "--seats, versions: '<2',"), renamed), "own.yaml")
    assert [file.at(version).rows["seats"].flag for version in ("1.0", "1.9.9", "2.0", "7", None)] == [
        "--seats",
        "--seats",
        "--places",
        "--places",
        "--places",
    ]


def test_an_engine_is_known_at_the_version_that_it_says_it_has() -> None:
    assert table_for("sglang", "0.5.13.post1").spell({"cuda_graph_max_bs": 64}).arguments[0] == "--cuda-graph-max-bs"
    assert table_for("sglang", "0.5.23").spell({"cuda_graph_max_bs": 64}).arguments[0] == "--cuda-graph-max-bs-decode"
    assert "tlru" not in table_for("sglang", "0.5.20").space["radix_eviction_policy"].choices
    assert "tlru" in table_for("sglang").space["radix_eviction_policy"].choices
    assert "max_num_queued_reqs" not in table_for("vllm", "0.31.1").rows
    assert table_for("vllm", "vLLM 0.32.0+cpu").covers("0.32.1") and not table_for("vllm").covers("0.29")


def test_a_version_beyond_a_table_gets_the_nearest() -> None:
    assert table_for("sglang", "0.4").rows.keys() == table_for("sglang", "0.5.10").rows.keys()
    with pytest.raises(UserError, match="expected a version"):
        table_for("vllm", "unknown")
    with pytest.raises(UserError, match="bundled"):
        table_for("bundled")


@pytest.mark.parametrize(
    ("text", "version", "inside"),
    [(">=0.30,<0.34", "0.33.9", True), (">=0.30,<0.34", "0.34", False), ("<2", "2.0.0", False), ("", "b6123", True)],
)
def test_a_range_of_versions(text: str, version: str, inside: bool) -> None:
    assert (parse_version(version) in VersionRange.parse(text)) is inside


def test_every_forbidden_flag_of_every_table_is_refused_by_policy() -> None:
    kinds = (LOADING, SECURITY, RESOURCES)
    found = [(each.engine, flag) for each in tables() for flag in each.forbidden if not any(k.why(flag) for k in kinds)]
    assert found == []


def test_no_tunable_knob_of_any_table_is_refused_by_policy() -> None:
    kinds = (LOADING, SECURITY, RESOURCES)
    names = {(each.engine, knob.name) for each in tables() for knob in each.space if knob.tunable}
    assert {(engine, name): why for engine, name in names if (why := [k.why(name) for k in kinds if k.why(name)])} == {}


def test_what_bounds_service_or_takes_hardware_is_the_owners() -> None:
    owners: dict[EngineName, tuple[str, ...]] = {
        "vllm": ("max_model_len", "max_num_queued_reqs", "tensor_parallel_size", "data_parallel_size"),
        "sglang": ("context_length", "max_queued_requests", "tp_size", "enable_metrics"),
        "llamacpp": ("n_predict", "context_shift", "prio", "metrics"),
    }
    for engine, names in owners.items():
        assert [name for name in names if FOREIGN[engine][name].tunable] == []


def test_playbooks_may_name_every_knob_that_they_do() -> None:
    """The tables are the one registry: a knob that went from one would leave advice about nothing."""
    playbook = load_playbook("interactive-latency")
    for engine in ENGINES:
        playbook.check_knobs({knob.name: knob.default for knob in FOREIGN[engine]}, engine)
