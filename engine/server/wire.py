"""Frames on the socket between server and engine: a length, then a pickle. Both ends are ours and of one version."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from typing import Any

__all__ = ["frame", "read_frame", "receive_frame"]

HEADER = struct.Struct("!I")


def frame(message: Any) -> bytes:
    body = pickle.dumps(message, protocol=5)
    return HEADER.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """The next message.

    Raises:
        asyncio.IncompleteReadError: the other end is gone.
    """
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    return pickle.loads(await reader.readexactly(size))


def receive_frame(sock: socket.socket) -> Any:
    """The next message, waited for.

    Raises:
        EOFError: the other end is gone.
    """
    (size,) = HEADER.unpack(exactly(sock, HEADER.size))
    return pickle.loads(exactly(sock, size))


def exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError("the other end of the socket is gone")
        parts += part
    return bytes(parts)
