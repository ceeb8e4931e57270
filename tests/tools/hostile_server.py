"""A server process that misbehaves: `python -I -S hostile_server.py PORT MODE ...`, modes in the order they come about.

It imports little, so that it starts at once. What it does is told beside each mode.
"""

import os
import signal
import socket
import sys
import time


def ignore() -> None:
    """Ignores what asks it to end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def stray() -> None:
    """A grandchild in a session of its own that ignores SIGTERM and whose parent has ended."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ignore()
            while True:
                time.sleep(60)
        os._exit(0)
    os.wait()


def children() -> None:
    """Three children in its group that ignore SIGTERM."""
    for _ in range(3):
        if os.fork() == 0:
            ignore()
            while True:
                time.sleep(60)


def moving() -> None:
    """A descendant that is never the same process for long: each forks the next and ends."""
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)


def daemon() -> None:
    """Goes on in the background, as servers of old did: the process that was started ends at once, with 0."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


def flood() -> None:
    """A child that prints as fast as it can, and never stops."""
    if os.fork() == 0:
        line = b"x" * 119 + b"\n"
        while True:
            os.write(1, line * 500)


def binary() -> None:
    """Prints what is no text, and moves the cursor of a terminal that shows it."""
    os.write(1, b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \xff\xfe\x00\x01 \r\x1b[2J end \xe2\x80\xae\n")


def serve(port: int, answer: bytes, *, heir: bool) -> None:
    """Answers all requests alike; with `heir` a stray has the port too, and would hold it after our death."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        if heir:
            stray()
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)


def trickle(port: int) -> None:
    """Answers a byte at a time, for ever."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            try:
                while True:
                    connection.sendall(b"H")
                    time.sleep(0.05)
            except OSError:
                continue


MODES = {f.__name__: f for f in (ignore, stray, children, moving, daemon, flood, binary)}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

if __name__ == "__main__":
    at, modes = int(sys.argv[1]), sys.argv[2:]
    for mode in modes:
        if mode in MODES:
            MODES[mode]()
    if "mute" in modes:  # lives, and never listens
        while True:
            time.sleep(60)
    if "dies" in modes:  # ready for one request only
        with socket.create_server(("127.0.0.1", at)) as once:
            if "heir" in modes:
                stray()
            connection, _ = once.accept()
            connection.recv(4096)
            connection.sendall(OK)
            sys.exit("RuntimeError: CUDA error: device-side assert triggered")
    if "busy" in modes:  # listens, and is never ready
        serve(at, OK.replace(b"200 OK", b"503 Loading"), heir="heir" in modes)
    if "trickle" in modes:
        trickle(at)
    serve(at, OK, heir="heir" in modes)
