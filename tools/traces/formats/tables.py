"""The traces that come as CSV: BurstGPT's and Azure's."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence

from tools.traces.formats.reader import Lines, count_of
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.moments import moment_s
from tools.traces.reading import Reading

__all__ = ["AZURE", "BURSTGPT"]

Row = dict[str, str]

_END_S = 1e10


class _Table:
    """A CSV format, known by the columns of its header (in any case and order)."""

    def __init__(
        self, name: str, columns: tuple[str, ...], row: Callable[[Row, Reading], LoggedRequest | None]
    ) -> None:
        self.name = name
        self.expected = f"CSV with the columns {', '.join(columns)}"
        self._columns = {column.lower() for column in columns}
        self._row = row

    def recognises(self, head: Sequence[bytes]) -> bool:
        try:
            header = next(csv.reader([head[0].decode("utf-8-sig", "replace")])) if head else []
        except csv.Error:
            return False
        return self._columns <= {cell.strip().lower() for cell in header}

    def read(self, lines: Lines, reading: Reading) -> Iterator[LoggedRequest]:
        numbers: list[int] = []

        def text() -> Iterator[str]:
            for number, line in lines:
                numbers[:] = [number]
                yield line.decode("utf-8-sig", "replace")

        rows = csv.reader(text())
        header: list[str] | None = None
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                reading.bad_line(numbers[0], f"expected comma-separated values, found none ({error})")
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                if missing := self._columns - set(header):
                    reading.bad_line(numbers[0], f"expected columns {', '.join(sorted(missing))}, found none")
                    return
                continue
            if len(cells) != len(header):
                reading.bad_line(numbers[0], f"expected {len(header)} columns, found {len(cells)}")
                continue
            try:
                request = self._row(dict(zip(header, cells, strict=True)), reading)
            except BadLine as error:
                reading.bad_line(numbers[0], str(error))
                continue
            if request is not None:
                yield request


def _burstgpt(row: Row, reading: Reading) -> LoggedRequest | None:
    prompt = count_of("Request tokens", row["request tokens"])
    output = count_of("Response tokens", row["response tokens"])
    if prompt == 0 or output == 0:  # the authors' own mark of a failed request
        reading.left_out["failed (0 request or response tokens)"] += 1
        return None
    session = row.get("session id", row.get("sessionid", "")).strip()
    elapsed = row.get("elapsed time", "").strip()
    duration_s = _seconds("Elapsed time", elapsed) if elapsed else None
    return LoggedRequest(
        _seconds("Timestamp", row["timestamp"]), prompt, output, duration_s=duration_s, session=session or None
    )


def _azure(row: Row, reading: Reading) -> LoggedRequest | None:
    prompt = count_of("ContextTokens", row["contexttokens"])
    output = count_of("GeneratedTokens", row["generatedtokens"])
    if prompt == 0 or output == 0:
        reading.left_out["no answer (0 context or generated tokens)"] += 1
        return None
    return LoggedRequest(moment_s(row["timestamp"]), prompt, output)


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < _END_S:
        raise BadLine(f"expected {name} in seconds, found {text[:20]!r}")
    return value


BURSTGPT = _Table("burstgpt", ("Timestamp", "Request tokens", "Response tokens"), _burstgpt)
AZURE = _Table("azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _azure)
