"""Every format is told apart by its first lines and read; what can't be read is counted and named; no text is kept."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.traces_logs import LOGS
from tools.errors import UserError
from tools.traces import read_log
from tools.traces.blocks import BlockTable
from tools.traces.logged import BadLine, TraceLog
from tools.traces.moments import LogClock, moment_s

# As vLLM 0.32 writes them.
VLLM = "(APIServer pid=7) {level} 11-30 11:54:{second} [entrypoints/.../utils/request_logger.py:55] {message}"


def written(tmp_path: Path, text: str, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def read(tmp_path: Path, *lines: str | dict[str, Any]) -> TraceLog:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return read_log(written(tmp_path, text + "\n"))


@pytest.mark.parametrize("kind", LOGS)
def test_known_kinds_of_log_are_told_apart(tmp_path: Path, kind: str) -> None:
    name, make = LOGS[kind]
    found = {"chat.jsonl": "openai-proxy", "agents.jsonl": "bundled-engine", "azure.csv.gz": "azure"}
    log = read_log(make(tmp_path / name, 3))
    assert log.format == found.get(name, "burstgpt" if name == "bursty.csv" else "mooncake")
    assert log.bad == 0
    assert log.requests[0].at_s == 0
    assert [request.at_s for request in log.requests] == sorted(request.at_s for request in log.requests)


def test_mooncake_keeps_whole_blocks_only(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        {"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
        {"timestamp": 3500.5, "input_length": 1536, "output_length": 6, "hash_ids": [7, 8, 10]},
        {"timestamp": 9000, "input_length": 600, "output_length": 6, "hash_ids": [8, 10]},
    )
    first, second, third = log.requests
    assert (second.at_s, second.prompt_tokens, second.output_tokens, log.block_tokens) == (3.0005, 1536, 6, 512)
    assert first.blocks is not None and second.blocks is not None and third.blocks is not None
    assert len(first.blocks) == 2 and second.blocks[:2] == first.blocks
    assert third.blocks[0] not in second.blocks  # the same hash under another parent is another beginning


def test_burstgpt_leaves_failed_requests_out_and_says_so(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "5.25,a,1.5,ChatGPT,10,20,30,Conversation log",
        "7.0,a,2,GPT-4,40,0,40,API log",
        "8.0,a,2,GPT-4,40",
        "9.5,b,,GPT-4,forty,1,41,API log",
        "9.75,b,,GPT-4,40,1,41,API log",
    )
    assert [(r.at_s, r.prompt_tokens, r.duration_s, r.session) for r in log.requests] == [
        (0.0, 10, 1.5, "a"),
        (4.5, 40, None, "b"),
    ]
    assert log.left_out == {"failed (0 request or response tokens)": 1}
    assert log.bad == 2 and log.bad_examples[0] == "line 4: expected 8 columns, found 5"
    assert "line 5: expected Request tokens as a whole number from 0 on, found 'forty'" in log.bad_examples


def test_azure_with_and_without_a_zone_compressed(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        file.write("2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,110,27\n")
    log = read_log(path)
    assert [r.prompt_tokens for r in log.requests] == [4808, 110]
    assert log.requests[1].at_s == pytest.approx(0.052, abs=1e-5)


def test_litellm_helicone_and_nginx_spellings(tmp_path: Path) -> None:
    text = "word " * 64
    chat = [{"role": "system", "content": text}, {"role": "user", "content": "hello"}]
    usage = {"prompt_tokens": 70, "completion_tokens": 9}
    litellm = {
        "startTime": 1.7e9,
        "endTime": 1.7e9 + 2,
        "messages": chat,
        "model": "m",
        "prompt_tokens": 70,
        "completion_tokens": 9,
        "metadata": {"session_id": "s"},
        "status": "success",
    }
    helicone = {
        "request_created_at": "2023-11-14T22:13:21Z",
        "request_body": {"model": "m", "messages": chat},
        "response_body": {"usage": usage},
        "response_status": 200,
        "delay_ms": 1500,
        "request_properties": {"Helicone-Session-Id": "h"},
    }
    last = {"choices": [], "usage": usage}
    stream = f'data: {{"choices":[]}}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]'
    nginx = {
        "time_iso8601": "2023-11-14T22:13:25+00:00",
        "request_time": "3.000",
        "upstream_response_time": "-",
        "status": "200",
        "request_body": json.dumps({"model": "m", "messages": chat}),
        "response_body": stream,
    }
    log = read(tmp_path, litellm, helicone, nginx)
    assert log.format == "openai-proxy"
    assert [(r.at_s, r.prompt_tokens, r.output_tokens, r.duration_s, r.session) for r in log.requests] == [
        (0.0, 70, 9, 2.0, "s"),
        (1.0, 70, 9, 1.5, "h"),
        (2.0, 70, 9, 3.0, None),
    ]
    assert len({r.blocks for r in log.requests}) == 1 and log.requests[0].blocks


def test_models_and_tools_keep_prompts_apart(tmp_path: Path) -> None:
    def line(at: float, model: str, tools: list[Any]) -> dict[str, Any]:
        body = {"model": model, "messages": [{"role": "user", "content": "word " * 80}], "tools": tools}
        return {"timestamp": at, "request": body, "usage": {"prompt_tokens": 80, "completion_tokens": 2}}

    log = read(tmp_path, line(1, "a", []), line(2, "b", []), line(3, "a", [{"name": "t"}]), line(4, "a", []))
    first, other_model, with_tool, same = (set(request.blocks or ()) for request in log.requests)
    assert first == same and not first & other_model and not first & with_tool


def test_failed_requests_and_broken_lines_of_a_proxy(tmp_path: Path) -> None:
    good = {"timestamp": 1.0, "prompt_tokens": 5, "completion_tokens": 5}
    log = read(
        tmp_path,
        good,
        "{broken",
        {**good, "timestamp": 2.0, "status": 503},
        {"timestamp": 3.0, "prompt_tokens": 5, "completion_tokens": -1},
        {**good, "timestamp": "yesterday"},
        {**good, "timestamp": 4.0},
    )
    assert [request.at_s for request in log.requests] == [0.0, 3.0]
    assert log.left_out == {"failed (status 503)": 1}
    assert log.bad == 3 and log.lines == 6
    assert [example.split(":")[0] for example in log.bad_examples] == ["line 2", "line 4", "line 5"]


def test_vllm_lines_of_one_request_belong_together(tmp_path: Path) -> None:
    def line(level: str, second: str, message: str) -> str:
        return VLLM.format(level=level, second=second, message=message)

    ids = list(range(40))
    details = (
        f"Request chatcmpl-1 details: prompt: 'It\\'s \"hi\"', prompt_token_ids: {ids}, prompt_embeds shape: None."
    )
    log = read(
        tmp_path,
        *["INFO 11-30 11:00:00 [loader.py:1] Loading weights"] * 300,
        line("DEBUG", "15", details),
        line(
            "INFO", "15", "Received request chatcmpl-1: params: SamplingParams(n=1, max_tokens=12), lora_request: None."
        ),
        line("INFO", "16", "Generated response chatcmpl-1 (streaming delta): output: 'x', finish_reason: None"),
        line("DEBUG", "18", "Generated response chatcmpl-1 (streaming complete) details: output_token_ids: [1, 2, 3]"),
        line("INFO", "18", "Generated response chatcmpl-1 (streaming complete): output: 'x y', finish_reason: stop"),
        line(
            "INFO",
            "19",
            f"Received request cmpl-2-0: prompt: None, params: SamplingParams(max_tokens=7), prompt_token_ids: {ids}, "
            "lora_request: None.",
        ),
        line("INFO", "20", "Received request cmpl-3-0: params: SamplingParams(max_tokens=7), lora_request: None."),
        line("INFO", "21", "Received request cmpl-4: prompt: 'cut"),
    )
    first, second = log.requests
    assert (first.prompt_tokens, first.output_tokens, first.duration_s) == (40, 3, 3.0)
    assert (second.prompt_tokens, second.output_tokens, second.at_s) == (40, 7, 4.0)
    assert first.blocks == second.blocks and len(first.blocks or ()) == 2
    assert log.bad == 1 and "VLLM_LOGGING_LEVEL=DEBUG" in log.bad_examples[0]
    assert any("max_tokens stands for their length" in note for note in log.notes)


def test_vllm_as_json(tmp_path: Path) -> None:
    def line(message: str) -> dict[str, Any]:
        return {"asctime": "2026-11-30 11:54:33,577", "levelname": "INFO", "message": message}

    log = read(
        tmp_path,
        line(f"Request a details: prompt: None, prompt_token_ids: {list(range(20))}, prompt_embeds shape: None."),
        line("Received request a: params: SamplingParams(max_tokens=7), lora_request: None."),
        line("Generated response a: output: 'two words', finish_reason: stop"),
    )
    assert [(r.prompt_tokens, r.output_tokens) for r in log.requests] == [(20, 2)]


@dataclasses.dataclass
class GenerateReqInput:
    """As SGLang's: its text form is a data class's."""

    rid: str
    text: str | None
    input_ids: list[int] | None


def test_sglang_as_text_and_as_json(tmp_path: Path) -> None:
    meta = {
        "id": "r",
        "finish_reason": {"type": "stop"},
        "prompt_tokens": 40,
        "completion_tokens": 6,
        "e2e_latency": 2.5,
    }
    asked = GenerateReqInput("r", "It's\nme", list(range(40)))
    stamp = "[2026-11-30 10:00:0{}] "
    text = read(
        tmp_path,
        stamp.format(1) + f"Receive: obj={asked}",
        stamp.format(4) + f"Finish: obj={asked}, out={ {'text': 'ok', 'meta_info': meta} }",
        stamp.format(5)
        + "Finish: obj=GenerateReqInput(rid='q', sampling_params={}), out={'meta_info': {'prompt_tokens': 9, "
        "'completion_tokens': 1, 'e2e_latency': 0.5}}",
        stamp.format(6) + "Finish: obj=GenerateReqInput(), out={'meta_info': {}}",
    )
    assert text.format == "sglang" and text.bad == 1
    assert [(r.at_s, r.prompt_tokens, r.output_tokens, r.duration_s) for r in text.requests] == [
        (0.0, 40, 6, 2.5),
        (3.0, 9, 1, 0.5),
    ]
    structured = read(
        tmp_path,
        {"timestamp": "2026-11-30T10:00:01.5", "event": "request.received", "rid": "r", "obj": {}},
        {
            "timestamp": "2026-11-30T10:00:04.0",
            "event": "request.finished",
            "rid": "r",
            "obj": {"text": None, "input_ids": [*range(32), "...", 1, 2]},
            "out": {"text": "ok", "meta_info": meta},
        },
    )
    assert structured.format == "sglang-json"
    assert structured.requests[0].blocks == text.requests[0].blocks  # both number from the first block on
    assert any("--log-requests-level 3" in note for note in structured.notes)


def test_unknown_files_name_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)none of the known formats.*mooncake.*vllm.*openai-proxy"):
        read_log(written(tmp_path, "hello\nworld\n"))
    with pytest.raises(UserError, match="an empty file"):
        read_log(written(tmp_path, ""))
    with pytest.raises(UserError, match="No such file"):
        read_log(tmp_path / "missing")
    with pytest.raises(UserError, match="--format: expected one of mooncake"):
        read_log(written(tmp_path, "x"), format_name="excel")
    with pytest.raises(UserError, match="none that can be used"):
        read(tmp_path, {"timestamp": 1, "input_length": 0, "output_length": 1, "hash_ids": []})


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    row = json.dumps({"timestamp": 1, "input_length": 4, "output_length": 1, "hash_ids": []})
    path.write_bytes(gzip.compress(("\n".join([row] * 2000)).encode())[:-9])
    with pytest.raises(UserError, match="can't be read to its end"):
        read_log(path)


def test_no_text_and_nothing_to_look_it_up_by_is_kept(tmp_path: Path) -> None:
    line = {
        "timestamp": 1.0,
        "request": {"model": "m", "messages": [{"role": "user", "content": "confidential " * 100}]},
        "usage": {"prompt_tokens": 100, "completion_tokens": 1},
    }
    log = read(tmp_path, line)
    assert "confidential" not in repr(log)
    assert log.requests[0].blocks == tuple(range(1, 7))  # numbers in order of appearance: no hash remains


def test_tables_of_two_logs_have_nothing_in_common() -> None:
    first, second = BlockTable(), BlockTable()
    assert first.tokens(range(32)) == second.tokens(range(32))  # by number, which is why logs can't be joined by it
    assert first._key != second._key


def test_a_coarse_clock_makes_no_bursts(tmp_path: Path) -> None:
    rows = [f"{second},m,10,10,20,l" for second in range(50) for _ in range(20)]
    log = read(tmp_path, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", *rows)
    assert len({request.at_s for request in log.requests}) == 1000
    assert any("ticks every 1 s" in note for note in log.notes)


def test_a_tokenizer_counts_and_shares_in_its_own_tokens(tmp_path: Path) -> None:
    line = {"timestamp": 1.0, "request": {"messages": [{"role": "user", "content": "x" * 64}]}, "response": "yy"}
    path = written(tmp_path, json.dumps(line) + "\n")
    log = read_log(path, encode=lambda text: [ord(character) for character in text])
    assert log.requests[0].prompt_tokens == len("<user>\n") + 64 + 1
    assert log.requests[0].output_tokens == 2


@pytest.mark.parametrize(
    "value", [1.7e9, 1.7e12, 1.7e15, 1.7e18, "1700000000", "2023-11-14T22:13:20Z", "14/Nov/2023:22:13:20 +0000"]
)
def test_one_moment_in_many_spellings(value: Any) -> None:
    assert moment_s(value) == 1.7e9


@pytest.mark.parametrize("value", [None, True, "noon", [1]])
def test_what_is_no_moment(value: Any) -> None:
    with pytest.raises(BadLine):
        moment_s(value)


def test_the_year_turns_in_a_log_without_years() -> None:
    clock = LogClock()
    before, after = clock.read_s("INFO 12-31 23:59:59 x"), clock.read_s("INFO 01-01 00:00:01 x")
    assert before is not None and after is not None and after - before == 2
    assert clock.read_s("no stamp") is None


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_broken_lines_are_counted_whatever_is_in_them(tmp_path: Path, data: st.DataObject) -> None:
    """A value of one line replaced by anything: the other lines are read, or the file is refused with a sentence."""
    lines = data.draw(st.sampled_from(WHOLE_LINES))
    old = data.draw(st.sampled_from(re.findall(r'"[^"]{0,30}"|\[[^\]]{0,40}\]|\d+', lines[-1])))
    new = data.draw(
        st.sampled_from(["null", "-1", '"x"', "[]", "{}", "1e400", "1e30", "true", "1.5", "[null]", "", ","])
    )
    broken = lines[-1].replace(old, new, 1)
    text = "\n".join([*lines, broken, lines[-1]]) + "\n"
    try:
        log = read_log(written(tmp_path, text))
    except UserError:
        return
    assert len(log.requests) + log.bad + sum(log.left_out.values()) <= log.lines
    assert len(log.requests) >= 2


WHOLE_LINES = [
    ['{"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]}'],
    ["Timestamp,Session ID,Elapsed time,Request tokens,Response tokens", "5.25,a,1.5,10,20"],
    ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.9799600,4808,10"],
    [
        '{"time": 1.7e9, "request_id": "r", "path": "/v1", "status": 200, "params": {"model": "m"}, "e2e_ms": 100, '
        '"prompts": [{"token_ids": [1, 2, 3]}], "choices": [{"token_ids": [4, 5]}]}'
    ],
    [
        '{"ts": 1.7e9, "request": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"a": 1}]'
        '}, "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "latency_ms": 20}'
    ],
    [
        '{"timestamp": "2026-11-30T10:00:04", "event": "request.finished", "obj": {"text": null, "input_ids": [1, 2]}, '
        '"out": {"meta_info": {"prompt_tokens": 2, "completion_tokens": 6, "e2e_latency": 2.5}}}'
    ],
    [
        "[2026-11-30 10:00:04] Finish: obj=GenerateReqInput(text='a', input_ids=[1, 2]), out={'meta_info': "
        "{'prompt_tokens': 2, 'completion_tokens': 6, 'e2e_latency': 2.5}}"
    ],
]
