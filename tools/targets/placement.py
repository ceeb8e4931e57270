"""Placement: the processors and the NUMA node that a server is held to, checked against this machine before a launch.

Threads are left alone: OMP_NUM_THREADS and the like stay what the deployment says. Engines that pin their own threads
do it by a call that no affinity withstands, so that two that disagree are refused, not settled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError
from tools.targets import supervise

__all__ = ["Placement", "cpu_set", "spelled"]

_NODES = Path("/sys/devices/system/node")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_PINNING_VARIABLES = ("VLLM_CPU_OMP_THREADS_BIND", "GOMP_CPU_AFFINITY")
"""Lists of processors, per thread or per rank; `auto`, `nobind` and `all` name none."""
_PINNING_FLAGS = ("--cpu-range", "-Cr", "--cpu-range-batch", "-Crb")
"""llama.cpp's, as `0-3`."""
_MASK_FLAGS = ("--cpu-mask", "-C", "--cpu-mask-batch", "-Cb")
"""llama.cpp's, in hexadecimal."""
_WRAPPERS = frozenset({"taskset", "numactl"})


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a server runs."""

    cpus: frozenset[int]
    numa_node: int | None = None
    "The only node whose memory it gets; None: wherever there is some."

    @classmethod
    def of(cls, cpus: str | None, numa_node: int | None) -> Placement | None:
        """What a deployment's `cpus` and `numa_node` ask for on this machine; None where they ask for nothing.

        Raises:
            UserError: no such processors or node here, or not for this process, or a kernel that can't hold to them.
        """
        if cpus is None and numa_node is None:
            return None
        if not hasattr(os, "sched_getaffinity"):
            raise UserError(
                "cpus, numa_node: this operating system doesn't hold a process to processors; leave them out"
            )
        usable = frozenset(os.sched_getaffinity(0))
        asked = usable if cpus is None else _asked(cpus, usable)
        if numa_node is None:
            return cls(asked)
        local = _processors_of(numa_node) & usable
        if cpus is None:
            if not local:
                raise UserError(
                    f"numa_node: node {numa_node} has no processor that this process may use ({spelled(usable)}); "
                    "name some with cpus:"
                )
            asked = local
        _require_policy(numa_node)
        return cls(asked, numa_node)

    def options(self) -> tuple[str, ...]:
        """For `supervise`."""
        told = ("--cpus", ",".join(map(str, sorted(self.cpus))))
        return told if self.numa_node is None else (*told, "--numa-node", str(self.numa_node))

    def check(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """
        Raises:
            UserError: the command pins itself elsewhere, so that the engine would leave the placement again.
        """
        for what, cpus in _own_pinning(words, environment):
            if not cpus <= self.cpus:
                raise UserError(
                    f"target: cpus is {spelled(self.cpus)}, but {what} pins the engine to {spelled(cpus)}; keep one"
                )
        if wrapper := next((word for word in words[:1] if Path(word).name in _WRAPPERS), None):
            raise UserError(f"target: command starts with {wrapper}, and cpus or numa_node is set too; keep one")

    def __str__(self) -> str:
        node = "" if self.numa_node is None else f", memory of NUMA node {self.numa_node}"
        return f"processors {spelled(self.cpus)}{node}"


def cpu_set(text: str) -> frozenset[int]:
    """`0-3,8` as a set, as `taskset -c` and the kernel write it.

    Raises:
        ValueError: `text` isn't written so.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise ValueError(f"expected processors as 0-3,8, found {text!r}")
        found.update(range(first, last + 1))
    return frozenset(found)


def spelled(cpus: Iterable[int]) -> str:
    """`{0, 1, 2, 3, 8}` as `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _asked(text: str, usable: frozenset[int]) -> frozenset[int]:
    try:
        asked = cpu_set(text)
    except ValueError as error:
        raise UserError(f"cpus: {error}") from None
    if missing := asked - usable:
        raise UserError(
            f"cpus: this process may use processors {spelled(usable)} of this machine, found {spelled(missing)} in "
            f"{text!r}"
        )
    return asked


def _processors_of(node: int) -> frozenset[int]:
    try:
        text = (_NODES / f"node{node}" / "cpulist").read_text().strip()
    except OSError:
        nodes = sorted(int(each.name[4:]) for each in _NODES.glob("node[0-9]*"))
        known = f"nodes {spelled(nodes)}" if nodes else "none: its kernel doesn't tell of NUMA"
        raise UserError(f"numa_node: this machine has {known}, found {node}") from None
    return cpu_set(text) if text else frozenset()


def _require_policy(node: int) -> None:
    """Whether the kernel can do it is found out by letting it."""
    argv = [sys.executable, "-I", "-S", supervise.__file__, "--numa-node", str(node), "--", "true"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as trial:
        assert trial.stderr is not None
        said = trial.stderr.read().strip()
        if trial.wait() != 0:
            raise UserError(
                f"numa_node: {said.removeprefix('supervise: ')}; leave it out, and name processors with cpus:"
            )


def _own_pinning(words: Sequence[str], environment: Mapping[str, str]) -> list[tuple[str, frozenset[int]]]:
    """What of the command pins the engine's threads, and to which processors. What can't be read isn't guessed at."""
    found: list[tuple[str, str]] = [
        (name, environment[name].replace("|", ",").replace(" ", ","))
        for name in _PINNING_VARIABLES
        if name in environment
    ]
    pinned: list[tuple[str, frozenset[int]]] = []
    for at, word in enumerate(words):
        flag, has_value, value = word.partition("=")
        given = value if has_value else words[at + 1] if at + 1 < len(words) else ""
        if flag in _PINNING_FLAGS:
            found.append((f"{flag} {given}", given))
        elif flag in _MASK_FLAGS and re.fullmatch(r"(0x)?[0-9a-fA-F]{1,64}", given):
            mask = int(given, 16)
            pinned.append((f"{flag} {given}", frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)))
    for what, text in found:
        try:
            pinned.append((what, cpu_set(text)))
        except ValueError:
            continue
    return pinned
