"""Wrapper: what an engine is started through (`numactl`, `taskset`, `docker run`), as far as a deployment has words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.importing.sorted_words import LeftOut

__all__ = ["Wrapper", "unwrapped"]

_PLAIN = frozenset({"exec", "env", "command", "nohup", "setsid"})
"Started through these, it is the same server."
_ASSIGNMENT = re.compile(r"^(?P<name>[A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_NODE = re.compile(r"(?:-[Nm]|--cpunodebind=|--membind=|--cpunodebind|--membind)(?P<node>\d*)")


@dataclass(frozen=True)
class Wrapper:
    """What is kept of the words before an engine's own."""

    cpus: str | None = None
    numa_node: int | None = None
    left_out: tuple[LeftOut, ...] = ()


def unwrapped(words: Sequence[str]) -> Wrapper:
    """What `words`, those before the engine's program, say of where it runs; all else is named."""
    cpus: str | None = None
    nodes = set[int]()
    left: list[str] = []
    tool, at = "", 0
    while at < len(words):
        word, after = words[at], words[at + 1 : at + 2]
        name = PurePosixPath(word).name
        node = _NODE.fullmatch(word)
        if name in ("numactl", "taskset"):
            tool = name
        elif tool == "taskset" and word in ("-c", "--cpu-list") and after and re.fullmatch(r"[\d,-]+", after[0]):
            cpus, at = after[0], at + 1
        elif tool == "numactl" and node and (node["node"] or (after and after[0].isdigit())):
            nodes.add(int(node["node"] or after[0]))
            at += not node["node"]
        elif name not in _PLAIN and (left or not _ASSIGNMENT.fullmatch(word)):
            left.append(_ASSIGNMENT.sub(r"\g<name>", word))  # its value may be a secret, and is elsewhere where not
        at += 1
    if len(nodes) > 1:
        left += ["numactl of nodes", *map(str, sorted(nodes))]
    named = (LeftOut(" ".join(left), "what it is started through there"),) if left else ()
    return Wrapper(cpus, next(iter(nodes)) if len(nodes) == 1 else None, named)
