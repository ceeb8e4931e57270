"""A user's own evals: read from beside the deployment, scored, and a Python scorer gets no network and no for-ever."""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

import configs
from tests.tools.test_evals_suite import asked_of
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.evals import python_scorer
from tools.evals.asker import open_asker
from tools.evals.declared import LmEval, OwnEval, Scored
from tools.evals.lm_eval import lm_eval_argv, read_harness, read_samples
from tools.evals.own import OwnSet, read_own
from tools.evals.python_scorer import PythonScorer, ScorerFailed, require_isolation
from tools.evals.results import TaskResult
from tools.evals.suite import Suite
from tools.targets import Endpoint, LaunchFailed

FILES = Path(__file__).parent / "files" / "lm_eval"
PAIRS: list[tuple[dict[str, Any], str]] = [({"weight": 1}, "hello"), ({"weight": 2}, "")]
MEMORY = 256 << 20


def declare(**fields: Any) -> Any:
    return TypeAdapter(OwnEval).validate_python({"name": "tone", **fields})


def scored(folder: Path, source: str, *, time_limit_s: float = 20.0) -> list[float]:
    file = folder / "scorers.py"
    file.write_text(textwrap.dedent(source))
    return PythonScorer(file, file.read_text(), "score", time_limit_s, MEMORY).scores(PAIRS)


def answered(own: OwnSet, *texts: str) -> TaskResult:
    """The eval, asked of a server that says these texts in turn."""
    answers = [(200, {"choices": [{"text": text, "finish_reason": "stop"}]}) for text in texts]
    with asked_of(*answers) as endpoint:

        async def ask() -> TaskResult:
            async with open_asker(endpoint) as asker:
                heard = []
                for item in own.items:  # one by one, so that each gets its own answer
                    heard += await OwnSet(own.declared, (item,), own.files, own.scorer).ask(asker)
                return own.score(heard)

        return asyncio.run(ask())


def test_a_scorer_gives_scores_and_may_print(tmp_path: Path) -> None:
    source = """
        def score(item, answer):
            print("thinking aloud", flush=True)
            return item["weight"] / 2 if answer else 0.0
    """
    assert scored(tmp_path, source) == [0.5, 0.0]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import socket\ndef score(i, a): socket.create_connection(('127.0.0.1', {port}), 5)", "unreachable"),
        ("def score(i, a): raise KeyError('expected')", "KeyError: 'expected'"),
        ("def score(i, a): return 'very good'", "found very good"),
        ("def score(i, a): return 1.5", "found 1.5"),
        ("def score(i, a): return float('nan')", "found nan"),
        ("import os\nos._exit(0)", "found b''"),
        (
            "import os\nfor f in range(3, 64):\n  try: os.write(f, b'junk')\n  except OSError: pass\n"
            "def score(i, a): return 1",
            "junk",
        ),
        ("held = bytearray(1 << 30)\ndef score(i, a): return 1", "MemoryError"),
        ("def grade(i, a): return 1", "score"),
        ("import os\ndef score(i, a): raise ValueError(os.environ.get('SECRET_KEY', 'no key'))", "no key"),
    ],
    ids=["socket", "raises", "words", "too much", "nan", "silent", "junk", "memory", "absent", "environment"],
)
def test_a_scorer_that_misbehaves_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-0000")
    with asked_of((200, {})) as listening, pytest.raises(ScorerFailed) as failure:
        port = listening.base_url.rpartition(":")[2]
        scored(tmp_path, source.replace("{port}", port))
    assert told in str(failure.value)


def living(marker: str) -> list[str]:
    """Processes that were started with `marker` among their arguments."""
    return [
        path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in _read(path).split(b"\0")
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


LEAVES_ONE_BEHIND = """
    import os, subprocess, sys
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # in a session of its own, with every pipe still open
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", {marker!r}])
        os._exit(0)
    def score(item, answer):
        while {loops}:
            pass
        return 1.0
"""


@pytest.mark.parametrize("loops", [False, True])
def test_nothing_that_a_scorer_started_outlives_it(tmp_path: Path, loops: bool) -> None:
    marker = f"left-behind-{tmp_path.name}"
    source = LEAVES_ONE_BEHIND.format(marker=marker, loops=loops)
    if loops:
        with pytest.raises(ScorerFailed, match="ended after 1 s"):
            scored(tmp_path, source, time_limit_s=1.0)
    else:
        assert scored(tmp_path, source) == [1.0, 1.0]
    assert living(marker) == []


def test_a_scorer_has_no_rights_in_its_namespace_and_no_way_to_ours(tmp_path: Path) -> None:
    source = f"""
        import ctypes, os
        def score(item, answer):
            free = ctypes.CDLL(None).sethostname(b"mine", 4) == 0
            try:
                os.kill({os.getpid()}, 0)
                free = True
            except ProcessLookupError:
                pass
            return float(free)
    """
    assert scored(tmp_path, source) == [0.0, 0.0]


def test_what_a_scorer_prints_is_kept_to_its_end(tmp_path: Path) -> None:
    source = """
        def score(item, answer):
            for _ in range(64):
                print("x" * (1 << 20))
            raise ValueError("the last words")
    """
    with pytest.raises(ScorerFailed, match="the last words") as failure:
        scored(tmp_path, source)
    assert len(str(failure.value)) < 1000


def test_the_code_that_was_hashed_is_the_code_that_scores(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def score(i, a): return 1.0")
    (tmp_path / "tone.jsonl").write_text('{"prompt": "x"}')
    own = read_own(declare(scorer="python", data="tone.jsonl", entry="s.py:score"), tmp_path)
    (tmp_path / "s.py").write_text("def score(i, a): return 0.0")
    assert answered(own, "y").score == 1.0


def test_where_no_network_can_be_taken_away_nothing_is_scored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("import os; os._exit(97)")
    monkeypatch.setattr(python_scorer, "_CHILD", child)
    require_isolation.cache_clear()
    with pytest.raises(UserError, match="process namespace"):
        require_isolation()
    require_isolation.cache_clear()


def test_items_are_read_asked_and_scored(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    lines = [
        {"id": "capital", "prompt": "Capital of France?", "expected": "Paris"},
        {"messages": [{"role": "user", "content": "Yes or no?"}], "expected": ["yes", "no"]},
    ]
    (tmp_path / "evals" / "tone.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    own = read_own(declare(scorer="exact", data="evals/tone.jsonl", max_tokens=5), tmp_path)
    assert [item.id for item in own.items] == ["capital", "2"]
    assert all(item.body["max_tokens"] == 5 and item.body["temperature"] == 0 for item in own.items)
    said = answered(own, " Paris", "maybe")
    assert {item: answer.score for item, answer in said.answers.items()} == {"capital": 1.0, "2": 0.0}
    assert said.answers["2"].text == "maybe"


def test_a_python_scorer_sees_the_whole_item_and_its_failure_is_every_answers(tmp_path: Path) -> None:
    (tmp_path / "tone.jsonl").write_text(json.dumps({"prompt": "Hi", "wanted": "hello"}) + "\n" + '{"prompt": "Bye"}')
    scorer = tmp_path / "scorers.py"
    scorer.write_text("def score(item, answer): return float(item.get('wanted', '') in answer)")
    declared = declare(scorer="python", data="tone.jsonl", entry="scorers.py:score")
    own = read_own(declared, tmp_path)
    assert [answer.score for answer in answered(own, "hello you", "").answers.values()] == [1.0, 1.0]
    scorer.write_text("def score(item, answer): return item['wanted'] in answer")
    changed = read_own(declared, tmp_path)
    assert changed.files != own.files
    failed = answered(changed, "hello", "")
    assert all("KeyError" in answer.unscored and answer.score == 0 for answer in failed.answers.values())


@pytest.mark.parametrize(
    ("fields", "line", "told"),
    [
        ({"scorer": "exact"}, "", "expected items"),
        ({"scorer": "exact"}, "{broken", "line 1"),
        ({"scorer": "exact"}, '{"expected": "x"}', "prompt or messages"),
        ({"scorer": "exact"}, '{"prompt": "x"}', "expected expected"),
        ({"scorer": "exact"}, '{"id": 7, "prompt": "x", "expected": "y"}\n' * 2, "'7' more than once"),
        ({"scorer": "regex"}, '{"prompt": "x", "pattern": "("}', "pattern"),
        ({"scorer": "json_schema"}, '{"prompt": "x", "schema": {"type": "bogus"}}', "schema"),
        ({"scorer": "json_schema"}, '{"prompt": "x"}', "schema"),
        ({"scorer": "python", "entry": "absent.py:score"}, '{"prompt": "x"}', r"absent\.py"),
    ],
)
def test_bad_data_is_told_with_its_line(tmp_path: Path, fields: dict[str, Any], line: str, told: str) -> None:
    (tmp_path / "tone.jsonl").write_text(line)
    with pytest.raises(UserError, match=told):
        read_own(declare(data="tone.jsonl", **fields), tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"scorer": "exact", "data": "/etc/passwd"},
        {"scorer": "exact", "data": "../other.jsonl"},
        {"scorer": "exact", "data": "x.jsonl", "entry": "s.py:f"},
        {"scorer": "python", "data": "x.jsonl"},
        {"scorer": "python", "data": "x.jsonl", "entry": "os.system"},
        {"scorer": "python", "data": "x.jsonl", "entry": "../s.py:f"},
        {"scorer": "exact", "data": "x.jsonl", "schema": {}},
        {"scorer": "json_schema", "data": "x.jsonl", "schema": {"type": "bogus"}},
        {"scorer": "judge", "data": "x.jsonl"},
        {"scorer": "lm_eval", "command": ["lm_eval"], "tasks": ["--device"]},
        {"scorer": "lm_eval", "command": [], "tasks": ["x"]},
        {"scorer": "lm_eval", "command": ["lm_eval"], "tasks": ["x"], "include": "/etc"},
    ],
)
def test_what_a_deployment_may_not_say(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        declare(**fields)


def test_scored_evals_survive_being_written_down() -> None:
    declared = declare(scorer="json_schema", data="x.jsonl", schema={"type": "object"})
    assert isinstance(declared, Scored)
    assert TypeAdapter(OwnEval).validate_python(declared.model_dump(mode="json", by_alias=True)) == declared


def harness(**fields: Any) -> LmEval:
    declared = declare(scorer="lm_eval", command=("lm_eval",), tasks=("tinyqa",), **fields)
    assert isinstance(declared, LmEval)
    return declared


def test_lm_evals_samples_are_read_and_agree_with_its_results(tmp_path: Path) -> None:
    said = read_samples(FILES, harness())
    assert [answer.score for answer in said.answers.values()] == [1.0, 1.0, 1.0, 0.0]
    assert set(said.answers) == {f"tinyqa/{i}" for i in range(4)}
    for fields in ({"metric": "acc_norm"}, {"filter": "strict-match"}):
        with pytest.raises(LaunchFailed):
            read_samples(FILES, harness(**fields))
    with pytest.raises(LaunchFailed, match="wrote no"):
        read_samples(tmp_path, harness())
    for file in FILES.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "samples_tinyqa_hard_2026-11-30T15-15-30.000000.jsonl").write_text("{}\n")
    assert read_samples(tmp_path, harness()) == said, "another task's samples begin with this one's name"
    for file in FILES.iterdir():
        (tmp_path / file.name).write_text(file.read_text().replace('"acc,none": 0.75', '"acc,none": 1.0'))
    with pytest.raises(LaunchFailed, match=r"0\.7500"):
        read_samples(tmp_path, harness())


def test_lm_eval_is_called_with_the_endpoint_and_the_users_tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    declared = harness(include="tasks", tokenizer="tasks", limit=7)
    argv = lm_eval_argv(declared, Endpoint("http://127.0.0.1:1", "m"), tmp_path, tmp_path / "out")
    assert argv[:3] == ["lm_eval", "--model", "local-completions"]
    assert "base_url=http://127.0.0.1:1/v1/completions" in argv[4] and f"tokenizer={tmp_path / 'tasks'}" in argv[4]
    assert argv[argv.index("--include_path") + 1] == str(tmp_path / "tasks") and "7" in argv
    with pytest.raises(UserError, match="environment of its own"):
        read_harness(harness().model_copy(update={"command": ("/nowhere/lm_eval",)}), tmp_path)


def test_a_harness_that_fails_is_told_by_its_last_words(tmp_path: Path) -> None:
    command = tmp_path / "lm_eval"
    command.write_text("#!/bin/sh\necho no such task >&2\nexit 3\n")
    command.chmod(0o755)
    found = read_harness(harness().model_copy(update={"command": (str(command),)}), tmp_path)
    with pytest.raises(LaunchFailed, match="status 3: no such task"):
        found.run(Endpoint("http://127.0.0.1:1", "m"))


def test_lm_eval_itself_reads_a_live_server(tmp_path: Path) -> None:
    """Where it is installed: $LM_EVAL names its command."""
    command = os.environ.get("LM_EVAL")
    if command is None:
        pytest.skip("LM_EVAL names no lm_eval")
    from tests.tools.test_evals_suite import engine

    tasks = tmp_path / "tasks"
    tasks.mkdir()
    rows = [{"question": "The capital of France is", "choices": ["Paris", "Berlin"], "answer": 0}]
    (tasks / "tinyqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tasks / "tinyqa.yaml").write_text(
        f"task: tinyqa\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tasks / 'tinyqa.jsonl'}}}}}\n"
        'test_split: test\noutput_type: multiple_choice\ndoc_to_text: "{{question}} Answer:"\n'
        'doc_to_choice: "{{choices}}"\ndoc_to_target: answer\n'
        "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    )
    with engine(tmp_path) as endpoint:
        tokenizer = {"tokenizer": "m0", "include": "tasks"}
        found = read_harness(harness(**tokenizer).model_copy(update={"command": (command,)}), tmp_path)
        said = found.run(endpoint)
    assert [answer.score in (0.0, 1.0) for answer in said.answers.values()] == [True]


def test_the_example_is_read_and_its_scorer_scores() -> None:
    example = load_deployment(Path(configs.__file__).parent / "own-evals" / "deployment.yaml")
    suite = Suite.of(example.deployment.evals, example.path.parent, 2048)
    assert {own.declared.scorer for own in suite.own} == {"exact", "regex", "json_schema", "python"}
    polite = next(own.scorer for own in suite.own if own.scorer is not None)
    items = next(own.items for own in suite.own if own.scorer is not None)
    assert polite.scores([(items[0].expected, "We are sorry."), (items[1].expected, "No.")]) == [1.0, 0.0]
