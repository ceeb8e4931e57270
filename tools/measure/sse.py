"""Server-sent events, decoded from bytes as they come. WHATWG HTML § 9.2.6, as far as answers use it."""

from __future__ import annotations

__all__ = ["SseDecoder", "SseError"]

_MAX_EVENT_BYTES = 8 * 2**20


class SseError(ValueError):
    """Bytes that aren't an event stream."""


class SseDecoder:
    """Incremental: `feed` takes any split of the stream, even inside a character, and gives the events it completes.

    Lines end with LF, CRLF or CR; comments and other fields than `data` are skipped; several `data` lines of an event
    are joined with LF. An event whose blank line never came is not an event, as the standard has it.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._at_start = True
        self._between = True  # nothing of an event is held back

    def is_one_event(self, received: bytes) -> bool:
        """Whether `received`, were it fed next, is one whole event of one line: `data: ...`. Then its data may be taken
        as `received[6:-2]` instead, and the decoder needn't know of it."""
        return (
            received.startswith(b"data: ")
            and received.endswith(b"\n\n")
            and received.find(b"\n") == len(received) - 2
            and self._between
            and b"\r" not in received
        )

    def feed(self, received: bytes) -> list[bytes]:
        """The `data` of every event that `received` completes.

        Raises:
            SseError: an event of more than 8 MiB.
        """
        if self._after_cr and received.startswith(b"\n"):
            received = received[1:]  # the second half of a CRLF that was split between two reads
            self._after_cr = False
        if received:
            self._after_cr = received.endswith(b"\r")
        events: list[bytes] = []
        lines = received.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for complete in lines[:-1]:
            self._line += complete
            self._end_line(events)
        self._line += lines[-1]
        if len(self._line) + self._data_bytes > _MAX_EVENT_BYTES:
            raise SseError(f"expected events below {_MAX_EVENT_BYTES} bytes")
        self._between = not self._line and not self._data and not self._after_cr
        return events

    def _end_line(self, events: list[bytes]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data.clear()
            self._data_bytes = 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value)
