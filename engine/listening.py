"""The port: taken before the model is loaded, so that a port in use is told at once."""

from __future__ import annotations

import socket

from engine.errors import StartRefused

__all__ = ["bound_socket", "port_taken"]


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that owns `port` but doesn't listen yet, so that nobody is kept waiting while the model loads.

    Raises:
        StartRefused: kind port_taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise port_taken(host, port, error) from error
    return sock


def port_taken(host: str, port: int, error: OSError) -> StartRefused:
    """Why `port` can't be had. Two that have bound it find out only when the second begins to listen."""
    return StartRefused("port_taken", f"can't listen on {host}:{port}: {error.strerror}; choose another --port")
