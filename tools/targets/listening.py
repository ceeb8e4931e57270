"""Who listens: whether a process group holds a listening TCP socket, by the operating system's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.resident import group_members

__all__ = ["listens"]

_LISTEN = "0A"
"State of a socket that accepts connections; include/net/tcp_states.h."


def listens(group: int, port: int) -> bool:
    """Whether a process of process group `group` accepts connections on `port`, on any address.

    Takes a few milliseconds: sockets are looked up in /proc/net/tcp by port, and among the descriptors by inode.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    return bool(wanted) and any(held in wanted for pid in group_members(group) for held in _descriptors(pid))


def _inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:  # no IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _descriptors(pid: int) -> Iterator[str]:
    try:
        held = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for descriptor in held:
        try:
            yield str(descriptor.readlink())
        except OSError:  # closed meanwhile
            continue
