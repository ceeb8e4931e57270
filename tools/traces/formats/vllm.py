"""vLLM's log with `--enable-log-requests`: lines of text (or its JSON logging) that belong together by request id.

From 0.11 on the prompt stands in a DEBUG line of its own (`Request ID details: prompt: ..., prompt_token_ids: [...]`)
before `Received request ID: params: ...`; older versions have both in one line. `Generated response ID` comes with
`--enable-log-outputs`. Without it the length of an answer isn't told, and `max_tokens` stands for it, which is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.traces.formats.reader import Lines, json_object
from tools.traces.logged import BadLine, LoggedRequest
from tools.traces.moments import LogClock
from tools.traces.prompt import Segment
from tools.traces.reading import Reading

__all__ = ["VLLM"]

_EVENT = re.compile(
    r"(Received request|Generated response|Request) (\S+?)(?: \((streaming \w+)\))?(:| details:) (.*)", re.S
)
_IDS = re.compile(r"(?:prompt|output)_token_ids: \[([^\]]*)\]")
_PROMPT = re.compile(r"""prompt: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_OUTPUT = re.compile(r"""output: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_MAX_TOKENS = re.compile(r"max_tokens=(\d+)")
_LORA = re.compile(r"lora_name='([^']*)'")
_CHOICE = re.compile(r"-\d+$")


@dataclass(slots=True)
class _Open:
    """A request of which not every line has been seen."""

    at_s: float | None = None
    number: int = 0
    prompt_ids: list[int] | None = None
    prompt: str | None = None
    lora: str = ""
    max_tokens: int | None = None
    output_ids: int | None = None


class _Vllm:
    name = "vllm"
    expected = "vLLM's log with --enable-log-requests and VLLM_LOGGING_LEVEL=DEBUG (Received request ...: params: ...)"

    def recognises(self, head: Sequence[bytes]) -> bool:
        return any(b"Received request " in line and b"params" in line for line in head)

    def read(self, lines: Lines, reading: Reading) -> Iterator[LoggedRequest]:
        clock, waiting = LogClock(), dict[str, _Open]()
        for number, line in lines:
            if b"Received request " not in line and b"Request " not in line and b"Generated response " not in line:
                continue
            text = line.decode("utf-8", "replace")
            data = json_object(line)
            message = str(data.get("message", "")) if data is not None else text
            event = _EVENT.search(message)
            if event is None:
                continue
            what, request_id, streaming, colon, rest = event.groups()
            stamp_s = clock.read_s(text)
            if stamp_s is None:
                reading.bad_line(number, "expected a stamp like 11-30 10:00:00, found none")
                continue
            try:
                if what == "Generated response":
                    finished = self._answered(waiting, request_id, streaming, colon, rest, stamp_s, reading)
                    if finished is not None:
                        yield finished
                else:
                    self._asked(waiting.setdefault(request_id, _Open()), what, number, stamp_s, rest)
            except (ValueError, SyntaxError) as error:
                reading.bad_line(number, f"expected token ids or a quoted text, found neither ({type(error).__name__})")
        yield from self._unanswered(waiting, reading)

    def _asked(self, request: _Open, what: str, number: int, stamp_s: float, rest: str) -> None:
        if request.at_s is None:
            request.at_s, request.number = stamp_s, number
        if (ids := _IDS.search(rest)) is not None and ids[1].strip():
            request.prompt_ids = [int(token) for token in ids[1].split(",")]
        elif (prompt := _PROMPT.search(rest)) is not None:
            request.prompt = str(ast.literal_eval(prompt[1]))
        if what == "Received request":
            if (most := _MAX_TOKENS.search(rest)) is not None:
                request.max_tokens = int(most[1])
            if (lora := _LORA.search(rest)) is not None:
                request.lora = lora[1]

    def _answered(
        self,
        waiting: dict[str, _Open],
        request_id: str,
        streaming: str | None,
        colon: str,
        rest: str,
        stamp_s: float,
        reading: Reading,
    ) -> LoggedRequest | None:
        if streaming == "streaming delta":
            return None
        key = request_id if request_id in waiting else _CHOICE.sub("", request_id)
        if key not in waiting:
            reading.left_out["answered, but received before the log begins"] += 1
            return None
        request = waiting[key]
        if (ids := _IDS.search(rest)) is not None:
            request.output_ids = ids[1].count(",") + 1 if ids[1].strip() else 0
        if colon == " details:":
            return None  # the line with the text follows
        del waiting[key]
        output = request.output_ids
        if output is None and (answer := _OUTPUT.search(rest)) is not None:
            said = str(ast.literal_eval(answer[1]))
            output = reading.answer_tokens(said)
            reading.note("output lengths are counted in the text; log at DEBUG to have their token ids")
        duration_s = None if request.at_s is None else max(stamp_s - request.at_s, 0.0)
        return self._request(request, output, duration_s, reading)

    def _unanswered(self, waiting: dict[str, _Open], reading: Reading) -> Iterator[LoggedRequest]:
        for request in waiting.values():
            if request.max_tokens is None:
                reading.left_out["no answer in the log, and no max_tokens"] += 1
                continue
            found = self._request(request, request.max_tokens, None, reading)
            if found is not None:
                reading.note(
                    "some answers aren't in the log: max_tokens stands for their length, an upper bound; "
                    "serve with --enable-log-outputs"
                )
                yield found

    def _request(
        self, request: _Open, output: int | None, duration_s: float | None, reading: Reading
    ) -> LoggedRequest | None:
        try:
            if request.prompt_ids:
                prompt, blocks = len(request.prompt_ids), reading.prompt_ids(request.prompt_ids, root=request.lora)
            elif request.prompt:
                prompt, blocks = reading.prompt((Segment("prompt", request.prompt),), None, root=request.lora)
            else:
                raise BadLine("expected the prompt or its token ids, found neither; log at VLLM_LOGGING_LEVEL=DEBUG")
        except BadLine as error:
            reading.bad_line(request.number, str(error))
            return None
        if not output or request.at_s is None:
            reading.left_out["no answer (0 output tokens)"] += 1
            return None
        return LoggedRequest(request.at_s, prompt, output, blocks, duration_s=duration_s)


VLLM = _Vllm()
