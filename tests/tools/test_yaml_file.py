"""YAML files: read without surprises, edited so that only the planned scalars change."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.errors import UserError
from tools.manifests import KeyPath, YamlFile
from tools.manifests.yaml_file import parse_data
from tools.manifests.yaml_scalar import write_scalar
from tools.targets import Value

HERE = Path("deployment.yaml")
DEPLOYMENT = f"""\
# Who owns this: the chat team.  # autotune: managed is explained in docs
name: demo      # trailing spaces follow{"   "}
config:
  max_num_seqs: 8   # sequences # autotune: managed

  block_size: 16
  weight_dtype: 'bf16'  # autotune: managed
  scheduler: "fcfs"  # autotune: managed
  ratio: 0.5 # autotune:managed
  cache: true #autotune: managed
  empty:  # autotune: managed
notes: |
  a text may say
  key: 1  # autotune: managed
limits: {{low: 1, high: 2}}
steps: [1, two, '3']
"""
CONFIG = {"max_num_seqs", "weight_dtype", "scheduler", "ratio", "cache", "empty"}
values = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def parse(text: str) -> YamlFile:
    return YamlFile.parse(HERE, text)


def test_it_reads_what_safe_load_reads_and_finds_the_managed_keys() -> None:
    file = parse(DEPLOYMENT)
    assert file.data == yaml.safe_load(DEPLOYMENT)
    assert file.managed == {("config", name) for name in CONFIG}


def test_data_that_is_only_read_is_the_same() -> None:
    assert parse_data(HERE, DEPLOYMENT) == parse(DEPLOYMENT).data


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.booleans() | st.text())
def test_data_that_is_only_read_knows_numbers_as_python_writes_them(value: float | bool | str) -> None:
    text = repr(value) if isinstance(value, float) else write_scalar(value)
    (found,) = parse_data(HERE, f"key: {text}\n").values()
    assert found == value and type(found) is type(value)


def test_a_splice_changes_the_scalars_and_nothing_else() -> None:
    changes: dict[KeyPath, Value] = {
        ("config", "max_num_seqs"): 64,
        ("config", "scheduler"): "lpm",
        ("config", "ratio"): 1e-5,
    }
    after = parse(DEPLOYMENT).splice(changes)
    diff = [line for line in difflib.ndiff(DEPLOYMENT.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert diff == [
        "-   max_num_seqs: 8   # sequences # autotune: managed",
        "+   max_num_seqs: 64   # sequences # autotune: managed",
        '-   scheduler: "fcfs"  # autotune: managed',
        '+   scheduler: "lpm"  # autotune: managed',
        "-   ratio: 0.5 # autotune:managed",
        "+   ratio: 1.0e-05 # autotune:managed",
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@settings(max_examples=60, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(sorted(CONFIG)), values, max_size=6))
def test_any_values_round_trip_and_splicing_back_restores_the_file(
    end: str, bom: str, changes: dict[str, bool | int | float | str]
) -> None:
    file = parse(bom + DEPLOYMENT.replace("\n", end))
    after = parse(file.splice({("config", name): value for name, value in changes.items()}))
    assert after.data["config"] == {**file.data["config"], **changes}
    assert after.data == yaml.safe_load(after.text)
    assert after.text.count(end) == file.text.count(end)
    kept = {name: file.data["config"][name] for name in changes if name != "empty"}
    back = after.splice({("config", name): value for name, value in kept.items()})
    if "empty" not in changes:
        assert parse(back).data == file.data


@settings(deadline=None)
@given(value=values, quote=st.sampled_from(["", "'", '"']))
def test_a_written_scalar_reads_back_as_the_same_value_of_the_same_type(
    value: bool | int | float | str, quote: str
) -> None:
    back = yaml.safe_load(f"key: {write_scalar(value, quote)}\n")["key"]
    assert (type(back), back) == (type(value), value)


@settings(deadline=None)
@given(text=st.from_regex(r"[-+0-9a-zA-Z._~/]{1,12}", fullmatch=True))
def test_an_accepted_plain_scalar_means_the_same_to_safe_load(text: str) -> None:
    try:
        value = parse(f"key: {text}\n").data["key"]
    except UserError:
        return
    assert yaml.safe_load(f"key: {text}\n") == {"key": value}


@pytest.mark.parametrize(
    "trap",
    ["1e5", "1.5e5", "010", "1:30", "on", "No", "yes", "1_000", "0b11", "0o17", "2026-01-01", "-.5", ".nan", "="],
)
def test_a_scalar_that_yaml_versions_read_differently_is_refused_unless_quoted(trap: str) -> None:
    with pytest.raises(UserError, match=r"deployment.yaml, line 2: .*quote it"):
        parse(f"a: 1\nkey: {trap}\n")
    assert parse(f"key: '{trap}'\n").data == {"key": trap}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key a stands here a second time"),
        ("a: &x 1\nb: *x\n", "line 1: anchors"),
        ("a: {x: 1}\nb:\n  <<: {y: 1}\n", "line 3: <<"),
        ("a: !!python/object:os.system ls\n", "line 1: the tag"),
        ("on: 1\n", "line 1: .*YAML 1.1 reads on as True"),
        ("1: one\n", "line 1: expected a text as key, found 1"),
        ("a: 1\n---\nb: 2\n", "line 2: not valid YAML: but found another document"),
        ("a: [1\n", "not valid YAML"),
        ("a: \x00\n", "not valid YAML"),
        ("- 1\n", "expected `key: value`"),
        ("", "expected `key: value` lines, found nothing"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper"),
        ("# autotune: managed\na: 1\n", "line 1: the mark"),
        ("a:  # autotune: managed\n  b: 1\n", "line 1: the mark"),
        ("a: {b: 1} # autotune: managed\n", "line 1: the mark"),
        ("a: [1] # autotune: managed\n", "line 1: the mark"),
        ("a: 1 # autotune: manged\n", "line 1: expected `# autotune: managed`, found `# autotune: manged`"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse(text)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (("config", "block_size"), "line 6: config.block_size isn't managed"),
        (("config", "max_num_seq"), "did you mean config.max_num_seqs"),
        (("config",), "no value stands at config"),
    ],
)
def test_an_unmanaged_or_unknown_key_is_never_changed(key: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse(DEPLOYMENT).splice({key: 1})


@pytest.mark.parametrize(
    "evil", ["256; curl evil", "x\nname: other", "x # autotune: managed", "*a", "- 1", "{a: 1}", "--x"]
)
def test_an_injected_value_stays_one_string(evil: str) -> None:
    file = parse(DEPLOYMENT)
    after = parse(file.splice({("config", "max_num_seqs"): evil}))
    assert after.data == {**file.data, "config": {**file.data["config"], "max_num_seqs": evil}}
    assert after.managed == file.managed


def test_a_text_of_many_lines_is_not_spliced() -> None:
    with pytest.raises(UserError, match="one line"):
        parse("a: 'x\n  y' # autotune: managed\n").splice({("a",): "z"})


def test_a_missing_file_and_a_wrong_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: expected a YAML file"):
        YamlFile.read(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes("a: ü".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8, found byte 0xfc at 3"):
        YamlFile.read(tmp_path / "latin.yaml")
