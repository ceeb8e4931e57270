"""The ledger: nothing in it can change unnoticed, and a crash loses at most what was never acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tools.canonical import canonical_json, digest
from tools.errors import UserError
from tools.ledger import GENESIS, Ledger, verify_chain

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=4)
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "ledger.jsonl"


def write(path: Path, n: int = 5) -> None:
    with Ledger(path, clock=lambda: 1.5) as ledger:
        for i in range(n):
            ledger.append("trial", {"i": i, "raw_blob": ledger.put_blob({"records": [i]})}, key=f"trial-{i}")


def test_entries_form_a_chain_from_genesis_to_head(path: Path) -> None:
    with Ledger(path, clock=map(float, count(10)).__next__) as ledger:
        first = ledger.append("run", {"b": 1, "a": (1, 2)})
        second = ledger.append("trial", {}, key="t")
        assert (first.prev, second.prev, ledger.head) == (GENESIS, first.hash, second.hash)
        assert (first.seq, first.time, second.seq, second.time) == (0, 10.0, 1, 11.0)
        assert first.data == {"a": [1, 2], "b": 1}  # what a reader will find, not what was passed
        assert ledger.find("t") == second and ledger.find("other") is None
        assert ledger.of_kind("trial") == [second]
    assert list(Ledger.read(path)) == [first, second]


@relaxed
@given(data=st.lists(json_objects, min_size=1, max_size=5))
def test_what_was_appended_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: list[dict[str, object]]
) -> None:
    assume("blob" not in str(data))  # a field of that name refers to a raw record
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    for item in data:  # reopened for each entry: the chain goes on where it was
        with Ledger(path) as ledger:
            ledger.append("x", item)
    assert [entry.data for entry in Ledger.read(path)] == data
    assert verify_chain(path) == []


def test_a_second_entry_with_the_same_key_is_refused_also_after_reopening(path: Path) -> None:
    write(path)
    with Ledger(path) as ledger:
        with pytest.raises(UserError, match="trial-3"):
            ledger.append("trial", {}, key="trial-3")
        assert len(ledger) == 5


def test_nan_is_refused_and_leaves_the_ledger_as_it_was(path: Path) -> None:
    with Ledger(path) as ledger, pytest.raises(ValueError, match="JSON"):
        ledger.append("x", {"ttft_ms": float("nan")})
    assert len(Ledger.read(path)) == 0


@relaxed
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_flipped_byte_is_noticed(tmp_path_factory: pytest.TempPathFactory, place: float, flip: int) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    write(path)
    raw = bytearray(path.read_bytes())
    at = int(place * len(raw))
    raw[at] ^= flip
    path.write_bytes(bytes(raw))
    assert verify_chain(path)
    if at < len(raw) - 1:  # the last newline is the one byte whose loss looks like a crash
        with pytest.raises(UserError, match=r"line \d: the ledger's chain is broken"):
            Ledger(path)


@pytest.mark.parametrize("line", range(4))
def test_a_dropped_line_is_named(path: Path, line: int) -> None:
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    assert f"line {line + 1}: expected entry {line}, found entry {line + 1}" in verify_chain(path)[0]


def test_a_reordered_pair_is_named(path: Path) -> None:
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1], lines[2] = lines[2], lines[1]
    path.write_bytes(b"".join(lines))
    assert "line 2: expected entry 1, found entry 2" in verify_chain(path)[0]


def test_an_entry_rewritten_with_a_fitting_hash_breaks_the_chain_at_the_next(path: Path) -> None:
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    fields = json.loads(lines[2])
    fields["data"]["i"] = 99
    fields["hash"] = digest({name: value for name, value in fields.items() if name != "hash"})
    lines[2] = canonical_json(fields) + b"\n"
    path.write_bytes(b"".join(lines))
    assert verify_chain(path) == ["line 4: entry 3 doesn't follow from the entry before it"]


def test_a_rechained_tail_is_whole_in_itself_but_not_anchored(path: Path) -> None:
    write(path)
    head = Ledger.read(path).head
    assert verify_chain(path, anchor=head) == []
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    with Ledger(path) as ledger:
        ledger.append("trial", {"i": 99}, key="trial-3")
    assert verify_chain(path) == []
    assert head in verify_chain(path, anchor=head)[0]


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_line_torn_by_a_crash_is_moved_aside_and_the_rest_kept(path: Path, cut: int) -> None:
    write(path)
    whole = path.read_bytes()
    torn = whole.splitlines()[-1][:cut]
    path.write_bytes(whole + torn)
    assert len(Ledger.read(path)) == 5
    assert "torn" in verify_chain(path)[0]
    with Ledger(path) as ledger:
        assert ledger.recovered is not None and f"{cut} bytes" in ledger.recovered
        ledger.append("resume", {})
    assert [side.read_bytes() for side in path.parent.glob("*.torn-*")] == [torn]
    assert verify_chain(path) == []


def test_a_whole_entry_that_only_lacks_its_newline_is_kept(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-1])
    with Ledger(path) as ledger:
        assert len(ledger) == 5 and ledger.recovered is not None
        ledger.append("resume", {})
    assert verify_chain(path) == []


def test_a_second_writer_is_refused_while_a_reader_is_not(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.append("run", {})
        with pytest.raises(UserError, match="another process"):
            Ledger(path)
        assert len(Ledger.read(path)) == 1
    Ledger(path).close()


def test_a_killed_writer_leaves_a_whole_ledger_and_no_lock(path: Path) -> None:
    story = (
        "import sys, os, pathlib; sys.path.insert(0, sys.argv[2]); from tools.ledger import Ledger\n"
        "ledger = Ledger(pathlib.Path(sys.argv[1]))\n"
        "for i in range(10**6):\n"
        "    ledger.append('x', {'i': i, 'pad': 'y' * 500})\n"
        "    i == 20 and (print('go', flush=True))\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", story, path, root], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"go\n"
        writer.kill()
    with Ledger(path) as ledger:
        assert [entry.data["i"] for entry in ledger] == list(range(len(ledger)))
        assert len(ledger) > 20
    assert verify_chain(path) == []


def test_equal_blobs_are_stored_once_and_read_back(path: Path) -> None:
    with Ledger(path) as ledger:
        blob = ledger.put_blob({"b": 1, "a": [1.5]})
        assert ledger.put_blob({"a": [1.5], "b": 1}) == blob
        assert ledger.get_json(blob) == {"a": [1.5], "b": 1}
        assert ledger.get_blob(ledger.put_blob(b"\x00raw")) == b"\x00raw"
    assert len(list((path.parent / "raw").iterdir())) == 2


def test_not_a_bit_of_a_blobs_file_can_be_another_one(path: Path) -> None:
    write(path, 1)
    assert verify_chain(path) == []
    file = next((path.parent / "raw").iterdir())
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        assert verify_chain(path) != [], f"bit {bit} of {file.name}"


def test_missing_and_altered_blobs_are_named(path: Path) -> None:
    write(path, 3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    blobs = [line["data"]["raw_blob"] for line in lines]
    store = path.parent / "raw"
    (store / f"{blobs[0]}.json.gz").unlink()
    (store / f"{blobs[2]}.json.gz").replace(store / f"{blobs[1]}.json.gz")
    (store / f"{blobs[2]}.json.gz").write_bytes(b"not gzip")
    problems = verify_chain(path)
    assert [problem.split(":")[0] for problem in problems] == ["line 1", "line 2", "line 3"]
    assert "missing" in problems[0] and "altered" in problems[1] and "altered" in problems[2]
    with pytest.raises(UserError, match="altered"):
        Ledger.read(path).get_blob(blobs[1])
