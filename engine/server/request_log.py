"""RequestLog: a JSON line per request, written by a thread of its own."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import orjson

from engine.errors import StartRefused

__all__ = ["RequestLog"]


class RequestLog:
    """Appends to a file without ever holding up who writes. Token ids always, text only with `with_text`."""

    def __init__(self, path: Path, *, with_text: bool) -> None:
        """Raises: StartRefused, kind bad_config, where the file can't be opened."""
        self.with_text = with_text
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise StartRefused("bad_config", f"--request-log: {path} can't be written: {error.strerror}") from error
        self._entries: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="request log", daemon=True)
        self._thread.start()

    def write(self, entry: dict[str, Any]) -> None:
        self._entries.put(entry)

    def close(self) -> None:
        """Wait until everything is on disk."""
        self._entries.put(None)
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while (entry := self._entries.get()) is not None:
            self._file.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
            if self._entries.empty():
                self._file.flush()
