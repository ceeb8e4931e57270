"""What anyone may have written is planted in six places: it changes no action, no plan and no verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
import yaml

from agents.action_schema import action_schema
from agents.expert import Expert
from agents.llm import Llm, LlmSettings
from agents.playbook import load_playbook
from agents.random_proposer import RandomProposer
from agents.untrusted import LINE_CHARS
from agents.view import View
from autotune.harness import Budget, Options, RunDir, Silent, start
from autotune.harness.context import Context
from autotune.harness.effects import Effects
from autotune.harness.killswitch import KillSwitch
from autotune.harness.view import view_of
from autotune.report_card.replay import ReplayLaboratory
from autotune.report_card.scenario import Scenario, Trap, load_scenarios
from autotune.report_card.stage import laboratory_of, set_up
from tests.agents.scripted_openai import ScriptedOpenAI, reply
from tools.deployment import load_deployment, parse_deployment
from tools.ledger import Entry, Ledger, LedgerView
from tools.manifests.yaml_file import YamlFile
from tools.targets.bundled import BundledTarget
from tools.targets.target import Endpoint
from verifiers import Evidence, Plan, gather, judge
from verifiers.gauntlet.edit import everywhere, with_evals
from verifiers.gauntlet.honest import usual
from verifiers.rules import quality

PLANTED: tuple[str, ...] = tuple(
    each["text"] * each.get("repeat", 1)
    for each in yaml.safe_load((Path(__file__).parents[1] / "data" / "injections.yaml").read_text())
)
SAMPLE = PLANTED[1], PLANTED[19], PLANTED[25]
HARMLESS = "the server ended by itself"
TELLING = 24
"Characters of a planted text that are no coincidence any more."


def scenario_with(words: str) -> Scenario:
    """One in which some configs don't start, and the server's last words are `words`."""
    base = next(one for one in load_scenarios() if one.id == "t01")
    trap = Trap(knob="max_num_seqs", at_least=12, message=words[:200], log_tail=words)
    return base.model_copy(update={"traps": (trap,)})


@dataclass(frozen=True)
class Explored:
    """A run that has explored, with everything that its next decision would rest on."""

    context: Context
    evidence: Evidence

    def after(self, edit: Callable[[Entry], Mapping[str, Any]]) -> Explored:
        """The same run, had its record held what `edit` gives."""
        entries = [replace(entry, data=edit(entry)) for entry in self.context.ledger]
        ledger = cast(Ledger, LedgerView(self.context.ledger.path, entries))
        effects = Effects(ledger, self.context.effects.budget, KillSwitch(self.context.run.path))
        return Explored(replace(self.context, effects=effects), replace(self.evidence, entries=tuple(entries)))

    @cached_property
    def view(self) -> View:
        return view_of(self.context)

    def decided(self, view: View | None = None) -> dict[str, Any]:
        """Which actions there are, what is proposed, what would be planned and what the gate says."""
        view, context = view or self.view, self.context
        few = context.playbook.model_copy(update={"hypotheses": context.playbook.hypotheses[:6]})  # all take 0.1 s
        proposers = Expert(few), RandomProposer(7)
        deployment = self.evidence.deployment
        candidate = context.baseline.patched({"max_num_seqs": 4})
        spread = context.history.spread
        plan = Plan.draw("run", deployment, context.baseline.digest, candidate.digest, noise=spread, attempts=0)
        proposed = self.evidence.proposing(candidate, 1 << 30)
        return {
            "actions": action_schema(context.playbook.allowed_actions, view.space, [t.id for t in view.trials], []),
            "proposed": [proposer.turn(view).action for proposer in proposers],
            "plan": plan.to_json(),
            "preflight": judge("preflight", proposed).to_json(),
            "trial": judge("trial", self.evidence.about(self.evidence.search[:1])).to_json(),
        }


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explored]:
    """Two trials by the expert, of which one failed, on played-back launches."""

    def enough(boundary: str, key: str) -> None:
        if (boundary, key) == ("recorded", "judge:t2"):
            raise KeyboardInterrupt

    root = tmp_path_factory.mktemp("injection")
    scenario = scenario_with(HARMLESS)
    file, laboratory = set_up(scenario, root / "service"), laboratory_of(scenario, seed=1)
    playbook = load_playbook("interactive-latency")
    options = Options(budget=Budget(wall_s=36_000, trials=6))
    expert, clock = Expert(playbook), laboratory.clock
    done = start(file, root / "runs", options, Silent(), enough, laboratory=laboratory, proposer=expert, clock=clock)
    deployment = load_deployment(file)
    with Ledger(done.run.ledger, clock=clock) as ledger:
        assert any(entry.data["failure"] for entry in ledger.of_kind("trial"))
        space = laboratory.target.knobs
        context = Context(
            run=done.run,
            file=deployment,
            laboratory=laboratory,
            space=space,
            baseline=space.resolve(deployment.deployment.config),
            playbook=playbook,
            proposer=expert,
            effects=Effects(ledger, options.budget, KillSwitch(done.run.path)),
            progress=Silent(),
            commit=False,
        )
        yield Explored(context, gather(ledger))


def test_the_corpus_is_large_and_of_many_kinds() -> None:
    assert len(set(PLANTED)) == len(PLANTED) >= 60
    text = "".join(PLANTED)
    for needed in (
        "\u202e",
        "\x1b[",
        "{{",
        "</data>",
        "\u200b",
        "!!python",
        "忽略",
        "DROP TABLE",
        "system:",
        "<tool_call>",
    ):
        assert needed in text, needed
    assert max(map(len, PLANTED)) > 10_000


def logged(words: str) -> Callable[[Entry], Mapping[str, Any]]:
    """Failure messages and the ends of logs."""

    def edit(entry: Entry) -> Mapping[str, Any]:
        if entry.kind == "trial" and entry.data["failure"]:
            return {**entry.data, "failure": {**entry.data["failure"], "message": words, "log_tail": words}}
        return entry.data

    return edit


def labelled(words: str) -> Callable[[Entry], Mapping[str, Any]]:
    """A metric that a server made up."""

    def edit(entry: Entry) -> Mapping[str, Any]:
        if entry.kind == "trial" and entry.data["summary"]:
            return {**entry.data, "summary": {**entry.data["summary"], words: 0.001}}
        return entry.data

    return edit


def named(words: str) -> Callable[[Entry], Mapping[str, Any]]:
    """The model's name, and the run that an earlier commit says it is from."""

    def edit(entry: Entry) -> Mapping[str, Any]:
        if entry.kind == "run.started":
            history = [{"sha": "0" * 40, "at": 0, "run": words, "changes": {}}]
            return {**entry.data, "deployment": {**entry.data["deployment"], "model": words}, "history": history}
        return entry.data

    return edit


@pytest.mark.parametrize("place", [logged, labelled, named], ids=["logs", "metric names", "model and run names"])
def test_nothing_in_the_record_changes_actions_plan_or_verdict(
    explored: Explored, place: Callable[[str], Callable[[Entry], Mapping[str, Any]]]
) -> None:
    expected = explored.after(place(HARMLESS)).decided()
    for words in PLANTED:
        assert explored.after(place(words)).decided() == expected, words[:80]


def test_nothing_in_notes_changes_what_is_proposed(explored: Explored) -> None:
    expected = explored.decided()
    for words in PLANTED:
        assert explored.decided(replace(explored.view, notes=(words,))) == expected, words[:80]


def test_nothing_in_a_comment_changes_the_deployment_or_what_may_be_changed(explored: Explored) -> None:
    file = explored.context.file
    text = file.path.read_text()
    for words in PLANTED:
        printed = "".join(c if c.isprintable() or c == "\n" else " " for c in words)  # YAML takes no others
        comment = "".join(f"# {line}\n" for line in printed.splitlines())
        read = parse_deployment(YamlFile.parse(file.path, comment + text.replace("\nslo:", f"\n{comment}slo:")))
        assert (read.deployment, read.managed) == (file.deployment, file.managed), words[:80]


def test_nothing_that_a_model_answers_changes_a_verdict() -> None:
    """Wrong answers stay wrong: nobody reads what they say."""
    run = usual()

    def verdicts(evidence: Evidence) -> dict[str, str]:
        return {
            rule.id: rule.verify(evidence).status for rule in quality.RULES if "tasks" in rule.id or "evals" in rule.id
        }

    def saying(words: str) -> Evidence:
        def plant(evals: Any) -> Any:
            tasks = {
                name: replace(
                    task, answers={item: replace(answer, text=words) for item, answer in task.answers.items()}
                )
                for name, task in evals.tasks.items()
            }
            return replace(evals, tasks=tasks)

        return with_evals(run, everywhere, plant)

    expected = verdicts(run)
    assert expected
    for words in PLANTED:
        assert verdicts(saying(words)) == expected, words[:80]


class _Metrics(BaseHTTPRequestHandler):
    text = ""

    def do_GET(self) -> None:
        body = self.text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_nothing_in_a_metrics_label_becomes_a_counter(tmp_path: Path) -> None:
    """Through a real server and the real parser, labels quoted as Prometheus has them."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        target, endpoint = BundledTarget(tmp_path), Endpoint(f"http://127.0.0.1:{server.server_port}", "m")
        for words in PLANTED:
            quoted = words.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            _Metrics.text = (
                f'engine_prompt_tokens_total{{model_name="{quoted}"}} 5\n'
                f'engine_request_success_total{{finished_reason="{quoted}"}} 2\n'
            )
            assert target.counters(endpoint) == {"prompt_tokens": 5.0, "requests": 2.0, "aborted": 0.0}, words[:80]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_prompt_holds_it_only_as_data_escaped_and_cut_short(explored: Explored) -> None:
    """The scripted model looks at the log before it ends, so that both prompts hold the text."""
    failed = next(trial.id for trial in explored.view.trials if not trial.measured)
    look = reply({"action": {"kind": "inspect", "trial": failed, "subject": "log"}})
    asked: list[Any] = []

    def answer(body: Mapping[str, Any]) -> Any:
        asked.append(body)
        return look if len(body["messages"]) == 2 else reply({"action": {"kind": "finish", "reason": "seen"}})

    with ScriptedOpenAI(then=answer) as server:
        llm = Llm(LlmSettings(model="scripted", base_url=server.base_url), explored.context.playbook)
        llm.turn(explored.view)
        kinds = [body["response_format"] for body in asked]
        systems = {body["messages"][0]["content"] for body in asked}
        for first in range(0, len(PLANTED), 4):  # as many notes as a prompt shows
            several = PLANTED[first : first + 4]
            asked.clear()
            view = replace(explored.after(logged("\n".join(several))).view, notes=several)
            assert llm.turn(view).action.kind == "finish"
            assert [body["response_format"] for body in asked] == kinds, several[0][:80]  # the actions, fixed before
            assert {body["messages"][0]["content"] for body in asked} == systems
            for message in asked[-1]["messages"][1:]:
                if message["role"] == "user":
                    for words in several:
                        _only_as_data(message["content"], words)
        llm.close()


def _only_as_data(prompt: str, words: str) -> None:
    before, opened, rest = prompt.partition("<data>")
    inside, closed, after = rest.rpartition("</data>")
    assert opened and closed and "<" not in inside, "a text could close the data that it stands in"
    for piece in {words[:TELLING], words[-TELLING:]} - {""}:
        assert len(piece) < TELLING or piece not in before + after, words[:80]
    texts = list(_texts(json.loads(inside)))
    assert all(text.isprintable() for text in texts)
    assert max(map(len, texts), default=0) <= LINE_CHARS


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def test_a_whole_run_ends_as_it_would_have(tmp_path: Path) -> None:
    """Two real runs on played-back launches: one in which servers die with orders on their lips, one without."""

    def ended(words: str, place: Path) -> dict[str, Any]:
        scenario = scenario_with(words)
        laboratory: ReplayLaboratory = laboratory_of(scenario, seed=1)
        run = RunDir(place / "runs" / "service-1")
        run.logs.mkdir(parents=True)
        outcome = start(
            set_up(scenario, place / "service"),
            place / "runs",
            Options(budget=Budget(wall_s=3600, trials=2)),
            Silent(),
            laboratory=laboratory,
            proposer=Expert(load_playbook("interactive-latency")),
            clock=laboratory.clock,
            run=run,
        )
        ledger = Ledger.read(run.ledger)
        plan, verdict = ledger.find("plan"), ledger.find("verdict")
        return {
            "actions": [entry.data["action"] for entry in ledger.of_kind("action")],
            "plan": plan and plan.data["plan_digest"],
            "verdicts": verdict and [(v["rule"], v["status"]) for v in verdict.data["verdicts"]],
            "decision": outcome.decision,
        }

    planted = ended("\n".join(SAMPLE), tmp_path / "planted")
    assert planted == ended(HARMLESS, tmp_path / "harmless") and planted["actions"]
