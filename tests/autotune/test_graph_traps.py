"""What langgraph does that nobody expects, each with a proof that it does, and that a run doesn't fall for it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import httpx2
import openai
import pytest
from langgraph._internal._retry import default_retry_on
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from pydantic import ValidationError

import autotune
from autotune.harness import Budget, Options, Outcome, Silent, start
from autotune.harness.budget import Spent
from autotune.harness.graph import compiled, superstep_limit
from autotune.harness.prepare import LlmOptions
from autotune.harness.roles import ROLES
from autotune.harness.state import State, update
from autotune.privacy import ASKED_FOR, keep_private
from autotune.report_card.scenario import load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from tests.agents.scripted_openai import Reply, ScriptedOpenAI
from tools.deployment import Acceptance
from tools.ledger import Ledger

HARNESS = Path(autotune.__file__).parent / "harness"
ROOT = HARNESS.parents[1]


def returning(**written: Any) -> Any:
    """The result of a graph of one node that returns `written` as it is."""

    def node(state: State) -> Command[Literal["__end__"]]:
        return Command(goto="__end__", update=written)

    graph: StateGraph[State, None, Any, Any] = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile().invoke(State())


def test_a_key_that_the_state_lacks_is_dropped_silently_so_nodes_return_through_update() -> None:
    assert returning(trun=7)["turn"] == 0
    with pytest.raises(ValidationError, match="trun"):
        update(trun=7)


def test_a_wrong_type_from_the_last_node_comes_through_so_results_are_validated() -> None:
    found = returning(turn="many")
    assert isinstance(found, dict) and found["turn"] == "many"
    with pytest.raises(ValidationError, match="turn"):
        State.model_validate(found)
    with pytest.raises(ValidationError, match="turn"):
        update(turn="many")


def test_no_node_returns_past_update() -> None:
    """Every `update=` of a Command in the harness is a call of `update`, or holds one."""
    written = 0
    for path in HARNESS.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Command":
                for keyword in call.keywords:
                    if keyword.arg == "update":
                        written += 1
                        checked = {getattr(inner.func, "id", "") for inner in _calls(keyword.value)}
                        assert "update" in checked, f"{path.name}:{call.lineno}"
    assert written > 5


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def a_run(root: Path, options: Options, until: str = "") -> Outcome:
    """A run on played-back launches, interrupted once the effect `until` is recorded."""

    def observe(boundary: str, key: str) -> None:
        if (boundary, key) == ("recorded", until):
            raise KeyboardInterrupt

    scenario = next(one for one in load_scenarios() if one.id == "t01")
    file, laboratory = set_up(scenario, root / "service"), laboratory_of(scenario, seed=1)
    clock = laboratory.clock
    return start(file, root / "runs", options, Silent(), observe, laboratory=laboratory, clock=clock)


def test_the_recursion_limit_is_ours_and_beyond_what_any_budget_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """langgraph's own would be 10,007 supersteps."""
    longest = 2 * max(meta.le for meta in Acceptance.model_fields["trials_per_arm"].metadata if hasattr(meta, "le"))
    nodes = sum(len(role.nodes) for role in ROLES)
    for turns in (1, 60, 500):
        assert 4 * turns + longest + 3 * nodes < superstep_limit(Budget(turns=turns)) < 4 * turns + 1000
    monkeypatch.setattr("autotune.harness.run.superstep_limit", lambda budget: 2)
    with pytest.raises(GraphRecursionError):
        a_run(tmp_path, Options(commit=False))


def test_the_graph_retries_nothing_where_its_default_would_repeat_a_bad_request(tmp_path: Path) -> None:
    response = httpx2.Response(400, request=httpx2.Request("POST", "http://127.0.0.1"))
    refused = openai.BadRequestError("no", response=response, body=None)
    assert default_retry_on(refused)
    with compiled(tmp_path / "checkpoints.sqlite") as graph:
        names = {name for role in ROLES for name in role.node_names}
        assert names <= set(graph.nodes)
        assert not any(node.retry_policy for node in graph.nodes.values())


def test_an_endpoint_that_only_fails_is_called_three_times_and_never_again(tmp_path: Path) -> None:
    """The client tries one call three times; neither the graph nor a later turn tries again."""
    with ScriptedOpenAI(then=Reply(500, "{}", {"Retry-After-Ms": "1"})) as server:
        llm = LlmOptions(server.base_url, "scripted")
        outcome = a_run(tmp_path, Options("llm", llm, Budget(wall_s=3600, trials=4), commit=False), until="action:4")
        asked = len(server.requests)
    actions = Ledger.read(outcome.run.ledger).of_kind("action")
    assert len(actions) == 4 and actions[0].data["proposer_failed"] and asked == 3


def test_a_checkpoint_revives_no_type_but_the_graphs_own(tmp_path: Path) -> None:
    """By default any importable type that a checkpoint names is called."""
    spent = Spent(1.0, 2, 3, 4)
    stored = JsonPlusSerializer(allowed_msgpack_modules=True).dumps_typed(spent)
    assert JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(stored) == spent
    with compiled(tmp_path / "checkpoints.sqlite") as graph:
        assert not isinstance(graph.checkpointer, bool | None)
        assert not isinstance(graph.checkpointer.serde.loads_typed(stored), Spent)


@contextmanager
def listener() -> Iterator[tuple[str, list[str]]]:
    """A real HTTP server that takes anything, and the paths that it was asked."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            seen.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PATCH = do_PUT = _take

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


GRAPH = """
import json, sys
if sys.argv[1] == "ours":
    import autotune.cli
    lazy = sorted({"langgraph", "langsmith", "openai", "torch", "optuna"} & set(sys.modules))
else:
    lazy = []
from typing import TypedDict
from langgraph.graph import StateGraph
from langgraph.checkpoint.serde import _msgpack
State = TypedDict("State", {"turn": int})
graph = StateGraph(State)
graph.add_node("node", lambda state: {"turn": 1})
graph.add_edge("__start__", "node")
graph.compile().invoke({"turn": 0})
import langsmith.run_trees
client = langsmith.run_trees._CLIENT
if client is not None:
    client.flush()
print(json.dumps({"lazy": lazy, "strict": _msgpack.STRICT_MSGPACK_ENABLED}))
"""


def traced(url: str, whose: str, **more: str) -> dict[str, Any]:
    """A process with every switch of the tracer on and `url` for its endpoint; what it says of itself."""
    switches = {f"{name}_{what}": value for name in ("LANGSMITH", "LANGCHAIN") for what, value in {
        "TRACING": "true", "TRACING_V2": "true", "API_KEY": "k" * 20, "ENDPOINT": url
    }.items()}  # fmt: skip
    environment = {**os.environ, **switches, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-c", GRAPH, whose]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_the_state_of_a_run_goes_nowhere_although_every_switch_of_the_tracer_is_on() -> None:
    with listener() as (url, seen):
        traced(url, "bare")
        assert seen, "the trap is gone: with these switches langgraph used to upload what a graph holds"
    with listener() as (url, seen):
        said = traced(url, "ours")
    assert seen == []
    assert said == {"lazy": [], "strict": True}


def test_a_tracer_works_for_whoever_asks_for_it_and_telemetry_is_off_for_everybody_else() -> None:
    switches = {"LANGSMITH_TRACING": "true", "LANGCHAIN_API_KEY": "k", "PATH": "/bin"}
    ours = dict(switches)
    keep_private(ours)
    assert not [name for name in ours if name.startswith(("LANGSMITH_", "LANGCHAIN_"))]
    assert ours["HF_HUB_DISABLE_TELEMETRY"] == "1" and ours["PATH"] == "/bin"
    asked = {**switches, ASKED_FOR: "true"}
    keep_private(asked)
    assert switches.items() <= asked.items() and asked["LANGGRAPH_STRICT_MSGPACK"] == "true"
