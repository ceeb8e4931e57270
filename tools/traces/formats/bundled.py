"""The bundled engine's `--request-log`: a JSON object per request, with token ids."""

from __future__ import annotations

from typing import Any

from tools.traces.formats.reader import JsonLines
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.reading import Reading

__all__ = ["BUNDLED"]


def _row(data: dict[str, Any], reading: Reading) -> LoggedRequest | None:
    if data["status"] != 200:
        reading.left_out[f"failed (status {data['status']})"] += 1
        return None
    prompts, choices = data["prompts"], data["choices"]
    if len(prompts) != 1:
        # A completion request may carry several prompts: the engine serves them as requests of their own.
        reading.left_out["several prompts in one request"] += 1
        return None
    ids = prompts[0]["token_ids"]
    if not isinstance(ids, list) or not ids:
        raise BadLine("expected prompts[0].token_ids as a list of token ids")
    output = max((len(choice["token_ids"]) for choice in choices), default=0)
    if output == 0:
        reading.left_out["no answer (0 output tokens)"] += 1
        return None
    duration_s = float(data["e2e_ms"]) / 1000
    blocks = reading.prompt_ids(ids, root=str(data.get("params", {}).get("model", "")))
    return LoggedRequest(float(data["time"]) - duration_s, len(ids), output, blocks, duration_s=duration_s)


BUNDLED = JsonLines(
    "bundled-engine",
    'JSON lines of the bundled engine\'s --request-log ("time", "status", "prompts", "choices", "e2e_ms")',
    lambda data: {"time", "status", "path", "request_id"} <= data.keys(),
    _row,
)
