"""Rows that are checks: every client runs unmodified, and the kernels' own tests pass."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers import NAME, OFFLINE, ROOT, Server, Unmeasurable, executable, load, model_dir, ours, run

Row = dict[str, Any]

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
"""
CHOICE = (
    "output_type: multiple_choice\ndoc_to_target: answer\ndoc_to_choice: '{{choices}}'\nmetric_list: [{metric: acc}]\n"
)
GENERATE = (
    "output_type: generate_until\ndoc_to_target: '{{choices[answer]}}'\n"
    "generation_kwargs: {until: ['\\n'], max_gen_toks: 16}\nmetric_list: [{metric: exact_match}]\n"
)
QUESTIONS = (
    ("The capital of France is", [" Paris", " Berlin"], 0),
    ("Water freezes at zero degrees", [" Celsius", " banana"], 0),
    ("Two and two make", [" seventeen", " four"], 1),
    ("The sun rises in the", [" east", " refrigerator"], 0),
)


def openai_client(server: Server, _: Path) -> None:
    """Whole and streamed chats, completions with log-probabilities, and the list of models."""
    from openai import OpenAI

    client = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60)
    assert [model.id for model in client.models.list()] == [NAME]
    messages: Any = [{"role": "user", "content": "Say hello."}]
    whole = client.chat.completions.create(model=NAME, messages=messages, max_tokens=8, temperature=0)
    assert whole.choices[0].message.content
    assert whole.usage and whole.usage.completion_tokens
    stream = client.chat.completions.create(model=NAME, messages=messages, max_tokens=8, temperature=0, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text, "nothing was streamed"
    completion = client.completions.create(model=NAME, prompt="The capital of France is", max_tokens=4, logprobs=2)
    logprobs = completion.choices[0].logprobs
    assert logprobs and logprobs.token_logprobs and len(logprobs.token_logprobs) == 4


def curl(server: Server, _: Path) -> None:
    body = json.dumps({"model": NAME, "prompt": "Once upon a time", "max_tokens": 8, "stream": True})
    command = ["curl", "-sSN", "--max-time", "60", f"{server.url}/v1/completions", "-d", body]
    done = run([*command, "-H", "Content-Type: application/json"], timeout_s=90)
    assert done.stdout.rstrip().endswith("data: [DONE]"), done.stdout[-300:]


def vllm_bench(server: Server, folder: Path) -> None:
    result = load(server, folder, concurrency=4, prompts=8, seed=1)
    assert result["completed"] == 8 and not result["failed"], result["completed"]


def guidellm(server: Server, folder: Path) -> None:
    report = folder / "guidellm.json"
    command = [executable("venvs", "guidellm", "bin", "guidellm"), "run", "--backend"]
    command += [f"kind=openai_http,target={server.url},model={NAME},request_format=/v1/completions"]
    command += ["--profile", "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=8"]
    command += ["--tokenizer", f"kind=hf_auto,model={model_dir()}"]
    command += ["--data", "kind=synthetic_text,prompt_tokens=256,output_tokens=32"]
    command += ["--output", f"kind=json,path={report}", "--disable-progress"]
    done = run(command, timeout_s=240, environment={**os.environ, **OFFLINE})
    assert done.returncode == 0, done.stdout[-400:]
    requests = json.loads(report.read_text())["benchmarks"][0]["metrics"]["request_totals"]
    assert (requests["successful"], requests["errored"]) == (8, 0), requests


def aiperf(server: Server, folder: Path) -> None:
    command = [executable("venvs", "aiperf", "bin", "aiperf"), "profile", "--model", NAME, "--url", server.url]
    command += ["--endpoint-type", "completions", "--streaming", "--tokenizer", str(model_dir()), "--isl", "256"]
    command += ["--isl-stddev", "0", "--osl", "32", "--osl-stddev", "0", "--extra-inputs", "ignore_eos:true"]
    command += ["--concurrency", "4", "--request-count", "8", "--random-seed", "1", "--ui", "none"]
    command += ["--artifact-dir", str(folder / "aiperf")]
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    done = run(command, timeout_s=240, environment=environment)
    assert done.returncode == 0, done.stdout[-400:]
    summary = json.loads(next((folder / "aiperf").rglob("profile_export_aiperf.json")).read_text())
    assert summary["request_count"]["avg"] == 8, summary["request_count"]


def lm_eval(server: Server, folder: Path) -> None:
    """Log-likelihoods through local-completions and answers through local-chat-completions, on four questions."""
    tasks = folder / "tasks"
    tasks.mkdir()
    data = tasks / "questions.jsonl"
    lines = [json.dumps({"question": q, "choices": choices, "answer": answer}) for q, choices, answer in QUESTIONS]
    data.write_text("\n".join(lines) + "\n")
    for name, kind in (("likely", CHOICE), ("spoken", GENERATE)):
        (tasks / f"{name}.yaml").write_text(TASK.format(name=name, data=data) + kind)
    arguments = f"model={NAME},tokenizer={model_dir()},tokenizer_backend=huggingface,num_concurrent=2,max_retries=1"
    program = executable("venvs", "lmeval", "bin", "lm_eval")
    for model, path, task in (
        ("local-completions", "completions", "likely"),
        ("local-chat-completions", "chat/completions", "spoken"),
    ):
        command = [program, "--model", model, "--model_args", f"{arguments},base_url={server.url}/v1/{path}"]
        command += ["--tasks", task, "--include_path", str(tasks), "--output_path", str(folder / f"lm-{task}")]
        done = run(
            [*command, *(["--apply_chat_template"] if task == "spoken" else [])],
            timeout_s=240,
            environment={**os.environ, **OFFLINE, "HF_DATASETS_CACHE": str(folder / "datasets")},
        )
        assert done.returncode == 0, done.stdout[-600:]
        results = json.loads(next((folder / f"lm-{task}").rglob("results_*.json")).read_text())["results"][task]
        if task == "likely":
            assert results["acc,none"] >= 0.75, results


CLIENTS: dict[str, Callable[[Server, Path], None]] = {
    "openai": openai_client,
    "curl": curl,
    "vllm bench serve": vllm_bench,
    "guidellm": guidellm,
    "aiperf": aiperf,
    "lm-eval": lm_eval,
}


def clients(folder: Path, flags: tuple[str, ...], only: tuple[str, ...] = ()) -> Row:
    """Each client against one server; the commands are those of docs/engine.md."""
    came_through: dict[str, bool | None] = {}
    why: dict[str, str] = {}
    with ours(folder, "--max-model-len", "2048", *flags) as server:
        for name, check in CLIENTS.items():
            if only and name not in only:
                continue
            try:
                check(server, folder)
                came_through[name] = True
            except Unmeasurable as error:
                missing = "the peers' folder" in str(error) or str(error).startswith("PEERS")
                came_through[name], why[name] = (None if missing else False), str(error)[:300]
            except Exception as error:  # noqa: BLE001  a client may fail in any way: that is the finding
                came_through[name], why[name] = False, f"{type(error).__name__}: {error}"[:300]
    verdict = False if False in came_through.values() else None if None in came_through.values() else True
    row: Row = {"value": came_through, "goal": "each runs unmodified", "ok": verdict}
    return {**row, "why": why} if why else row


def tests(pattern: str, goal: str, **environment: str) -> Row:
    """The tests of `tests/engine` whose file matches `pattern`."""
    files = sorted(map(str, (ROOT / "tests/engine").rglob(pattern)))
    if not files:
        raise Unmeasurable(f"there is no tests/engine/**/{pattern}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *files]
    done = run(command, timeout_s=900, environment={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    row: Row = {"value": counts, "goal": goal, "ok": done.returncode == 0 and counts.get("passed", 0) > 0}
    if not counts.get("passed"):
        row |= {"ok": None if done.returncode in (0, 5) else False, "why": done.stdout[-300:]}
    elif done.returncode:
        row |= {"why": done.stdout[-600:]}
    return row
