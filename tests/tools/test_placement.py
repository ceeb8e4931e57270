"""Where a server runs: asked for in a kernel's words, checked against this machine, and kept by the process itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.errors import UserError
from tools.targets import placement, supervise
from tools.targets.placement import Placement, cpu_set, spelled
from tools.targets.process import ServerProcess

HERE = os.sched_getaffinity(0)
TELL = """
import ctypes, os
mode, nodes = ctypes.c_int(-1), (ctypes.c_ulong * 16)()
number = {"x86_64": 239, "aarch64": 236}[os.uname().machine]
ctypes.CDLL(None).syscall(number, ctypes.byref(mode), nodes, ctypes.c_ulong(1024), None, 0)
print(sorted(os.sched_getaffinity(0)), mode.value, nodes[0], os.environ.get("OMP_NUM_THREADS"))
"""
"What the kernel says: processors, memory policy (2: bound), nodes as bits."


def told(log: Path, where: Placement | None) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "7"}
    argv = [sys.executable, "-I", "-S", "-c", TELL]
    with ServerProcess(argv, log=log, env=environment, placement=where) as process:
        process._supervisor.wait(60)
        return process.log_tail()


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_processors_are_written_as_they_are_read(cpus: frozenset[int]) -> None:
    assert cpu_set(spelled(cpus)) == cpus


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8", {0, 1, 2, 3, 8}), ("1", {1}), (" 0, 2 ", {0, 2}), ("1-1", {1})])
def test_processors_are_read_as_the_kernel_writes_them(text: str, cpus: set[int]) -> None:
    assert cpu_set(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "3-1", "0,,1", "0-", "-1", "0x3", "1 2"])
def test_what_names_no_processors_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected processors as 0-3,8"):
        Placement.of(text, None)


def test_processors_that_this_machine_lacks_are_named() -> None:
    with pytest.raises(UserError, match=f"may use processors {spelled(HERE)} of this machine, found 4000 in"):
        Placement.of(f"{min(HERE)},4000", None)
    with pytest.raises(UserError, match="found 999"):
        Placement.of(None, 999)
    assert Placement.of(None, None) is None


def test_a_server_runs_on_its_processors_alone_and_its_threads_are_left_alone(tmp_path: Path) -> None:
    one = max(HERE)
    assert told(tmp_path / "log", Placement.of(str(one), None)) == f"[{one}] 0 0 7"
    assert told(tmp_path / "log", None) == f"{sorted(HERE)} 0 0 7"


def test_a_server_gets_the_memory_of_its_node_alone(tmp_path: Path) -> None:
    nodes = sorted(int(each.name[4:]) for each in Path("/sys/devices/system/node").glob("node[0-9]*"))
    node = next((node for node in nodes if node < 64 and _processors(node) & HERE), None)
    if node is None:
        pytest.skip("this kernel tells of no NUMA node that has a processor of ours")
    try:
        where = Placement.of(None, node)
    except UserError as refusal:
        assert "leave it out, and name processors with cpus:" in str(refusal)  # a sandbox without the system call
        return
    assert where is not None and where.cpus == _processors(node) & HERE
    assert told(tmp_path / "log", where) == f"{sorted(where.cpus)} 2 {1 << node} 7"
    named = Placement.of(str(min(HERE)), node)
    assert named == Placement(frozenset({min(HERE)}), node)


def _processors(node: int) -> frozenset[int]:
    text = Path(f"/sys/devices/system/node/node{node}/cpulist").read_text().strip()
    return cpu_set(text) if text else frozenset()


def test_a_kernel_that_cant_bind_memory_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 63 is on no machine that tests run on: the kernel itself refuses it."""
    node = tmp_path / "node63"
    node.mkdir()
    (node / "cpulist").write_text(spelled(HERE))
    monkeypatch.setattr(placement, "_NODES", tmp_path)
    with pytest.raises(UserError, match=r"numa_node: can't take the memory of NUMA node 63: .+; leave it out"):
        Placement.of(None, 63)
    with pytest.raises(OSError, match=r"\w"):
        supervise.set_mempolicy(63)


def test_a_node_without_processors_of_ours_needs_some_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "cpulist").write_text("\n")
    monkeypatch.setattr(placement, "_NODES", tmp_path)
    with pytest.raises(UserError, match="node 1 has no processor that this process may use"):
        Placement.of(None, 1)
    with pytest.raises(UserError, match="this machine has nodes 1, found 0"):
        Placement.of(None, 0)


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        (
            ["vllm", "serve"],
            {"VLLM_CPU_OMP_THREADS_BIND": "0-3|4-7"},
            "VLLM_CPU_OMP_THREADS_BIND pins the engine to 0-7",
        ),
        (["llama-server", "--cpu-range", "2-3"], {}, "--cpu-range 2-3 pins the engine to 2-3"),
        (["llama-server", "-Cr=0-9"], {}, "pins the engine to 0-9"),
        (["llama-server", "-C", "0xC"], {}, "-C 0xC pins the engine to 2-3"),
        (["/usr/bin/taskset", "-c", "0", "vllm"], {}, "command starts with /usr/bin/taskset"),
        (["numactl", "--membind", "0", "vllm"], {}, "command starts with numactl"),
    ],
)
def test_two_that_pin_to_different_processors_are_refused(
    words: list[str], environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserError) as refusal:
        Placement(frozenset({0, 1})).check(words, environment)
    assert sentence in str(refusal.value) and "keep one" in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["vllm", "serve"], {"VLLM_CPU_OMP_THREADS_BIND": "auto"}),
        (["vllm", "serve"], {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}),
        (["llama-server", "--cpu-range", "0-1", "-C", "3", "-t", "8"], {"GOMP_CPU_AFFINITY": "0 1"}),
    ],
)
def test_pinning_within_the_placement_is_the_engines_own_matter(words: list[str], environment: dict[str, str]) -> None:
    Placement(frozenset({0, 1})).check(words, environment)
