"""The Mooncake traces (FAST '25): `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}` a line.

A hash id stands for 512 tokens and all before them; the last one of a prompt may be a part of a block, which no cache
of whole blocks can share and which is left out here.
"""

from __future__ import annotations

from typing import Any

from tools.traces.formats.reader import JsonLines, count_of
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.reading import Reading

__all__ = ["MOONCAKE"]

_BLOCK_TOKENS = 512
_END_MS = 1e13


def _row(data: dict[str, Any], reading: Reading) -> LoggedRequest | None:
    prompt = count_of("input_length", data["input_length"], least=1)
    output = count_of("output_length", data["output_length"])
    at = data["timestamp"]
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < _END_MS:
        raise BadLine(f"expected timestamp in milliseconds, found {str(at)[:20]}")
    if output == 0:
        reading.left_out["no answer (0 output tokens)"] += 1
        return None
    ids = data.get("hash_ids")
    if ids is not None and not (isinstance(ids, list) and set(map(type, ids)) <= {int}):
        raise BadLine("expected hash_ids as a list of whole numbers")
    blocks = None if ids is None else reading.table.known(ids[: prompt // _BLOCK_TOKENS])
    session = data.get("session_id")
    return LoggedRequest(
        at / 1000, prompt, output, blocks, _BLOCK_TOKENS, session=None if session is None else str(session)
    )


MOONCAKE = JsonLines(
    "mooncake",
    'JSON lines with "timestamp", "input_length", "output_length" and "hash_ids"',
    lambda data: {"timestamp", "input_length", "output_length"} <= data.keys(),
    _row,
)
