"""SGLang's log with `--log-requests`: `Finish: obj=..., out=...` as text, or `--log-requests-format json`.

Levels 0 and 1 leave the prompt out (lengths remain), level 2 cuts long ones in the middle: what stands before the cut
is used, and that is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tools.traces.formats.reader import JsonLines, Lines, count_of
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.moments import LogClock, moment_s
from tools.traces.prompt import Segment
from tools.traces.reading import Reading

__all__ = ["SGLANG_JSON", "SGLANG_TEXT"]

_TEXT = re.compile(r"""\btext=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")( \.\.\. )?""")
_IDS = re.compile(r"\binput_ids=\[([^\[\]]*)\]( \.\.\. )?")
_NUMBER = re.compile(r"'(prompt_tokens|completion_tokens|e2e_latency)': ([0-9.eE+-]+)")
_LORA = re.compile(r"lora_path='([^']*)'")
_CUT = "prompts longer than the log's limit are cut there; use --log-requests-level 3 to have them whole"
_CUT_CHARACTERS = 2048


class _SglangText:
    name = "sglang"
    expected = "SGLang's log with --log-requests (Finish: obj=GenerateReqInput(...), out={...})"

    def recognises(self, head: Sequence[bytes]) -> bool:
        return any(b"Finish: obj=" in line or b"Receive: obj=" in line for line in head)

    def read(self, lines: Lines, reading: Reading) -> Iterator[LoggedRequest]:
        clock = LogClock()
        for number, line in lines:
            if b"Finish: obj=" not in line:
                continue
            text = line.decode("utf-8", "replace")
            asked, comma, answered = text.partition(", out={")
            try:
                stamp_s = clock.read_s(text)
                if not comma or stamp_s is None:
                    raise BadLine("expected a stamp, obj= and out=, found a line without")
                told = dict(_NUMBER.findall(answered))
                ids, said = _IDS.search(asked), _TEXT.search(asked)
                tokens = [int(token) for token in ids[1].split(",")] if ids is not None and ids[1].strip() else None
                prompt = str(ast.literal_eval(said[1])) if said is not None else None
                if (ids is not None and ids[2]) or (tokens is None and said is not None and said[2]):
                    reading.note(_CUT)
                lora = _LORA.search(asked)
                request = _request(stamp_s, told, tokens, prompt, lora[1] if lora else "", reading)
            except BadLine as error:
                reading.bad_line(number, str(error))
            except (ValueError, SyntaxError) as error:
                reading.bad_line(number, f"expected token ids or a quoted text, found neither ({type(error).__name__})")
            else:
                if request is not None:
                    yield request


def _row(data: dict[str, Any], reading: Reading) -> LoggedRequest | None:
    if data["event"] != "request.finished":
        return None
    obj, told = data["obj"], data["out"]["meta_info"]
    ids, prompt = obj.get("input_ids"), obj.get("text")
    if isinstance(ids, list) and "..." in ids:
        ids = ids[: ids.index("...")]
        reading.note(_CUT)
    middle = _CUT_CHARACTERS // 2
    if isinstance(prompt, str) and len(prompt) == _CUT_CHARACTERS + 3 and prompt[middle : middle + 3] == "...":
        prompt = prompt[:middle]
        if not ids:
            reading.note(_CUT)
    return _request(moment_s(data["timestamp"]), told, ids or None, prompt, str(obj.get("lora_path") or ""), reading)


def _request(
    stamp_s: float, told: dict[str, Any], ids: list[int] | None, text: str | None, root: str, reading: Reading
) -> LoggedRequest | None:
    missing = {"prompt_tokens", "completion_tokens"} - told.keys()
    if missing:
        raise BadLine(f"expected {' and '.join(sorted(missing))} in meta_info, found none")
    prompt = count_of("prompt_tokens", told["prompt_tokens"], least=1)
    output = count_of("completion_tokens", told["completion_tokens"])
    if output == 0:
        reading.left_out["no answer (0 output tokens)"] += 1
        return None
    duration_s = float(told["e2e_latency"]) if "e2e_latency" in told else None
    blocks = None
    if ids:
        blocks = reading.prompt_ids(ids, root=root)
    elif text:
        blocks = reading.prompt((Segment("prompt", text),), prompt, root=root)[1]
    return LoggedRequest(stamp_s - (duration_s or 0.0), prompt, output, blocks, duration_s=duration_s)


SGLANG_TEXT = _SglangText()
SGLANG_JSON = JsonLines(
    "sglang-json",
    'SGLang\'s log with --log-requests-format json ("event": "request.finished")',
    lambda data: str(data.get("event", "")).startswith("request.") and "timestamp" in data,
    _row,
)
