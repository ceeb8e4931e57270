"""The suite on a live server: all is asked, the same model says the same, and what can't be used is an error."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.tiny_model import build_tiny_model
from tests.tools.in_thread import listening, serve_in_thread
from tools.errors import UserError
from tools.evals.asker import CHAT, COMPLETIONS, NoAnswer, open_asker
from tools.evals.conduct import PAIRS, record_conduct
from tools.evals.defaults import DEFAULT_REQUESTS, SAMPLES
from tools.evals.likelihood import divergence_nats, perplexity
from tools.evals.passages import PASSAGES, held_out
from tools.evals.results import EvalResults, Passage
from tools.evals.suite import Suite
from tools.evals.tasks import BUNDLED, needle
from tools.evals.teacher_forcing import score_passages
from tools.targets import Endpoint, LaunchFailed
from tools.targets.bundled import BundledTarget
from tools.targets.process import free_port

CONTEXT = 512


def scored_by(endpoint: Endpoint, passages: Mapping[str, str] = PASSAGES) -> dict[str, Passage]:
    async def score() -> dict[str, Passage]:
        async with open_asker(endpoint) as asker:
            return await score_passages(asker, passages)

    return asyncio.run(score())


@contextmanager
def engine(folder: Path, *, seed: int = 0) -> Iterator[Endpoint]:
    target = BundledTarget(build_tiny_model(folder / f"m{seed}", seed=seed))
    config = target.knobs.resolve({"num_threads": 1, "kv_cache_tokens": 4096, "dtype": "fp32"})
    endpoint = target.launch(config, log=folder / "engine.log")
    try:
        yield endpoint
    finally:
        target.stop(endpoint)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> EvalResults:
    """What a random model says to everything."""
    with engine(tmp_path_factory.mktemp("evals")) as endpoint:
        return Suite(CONTEXT).run(endpoint)


def test_everything_is_asked_and_survives_being_written_down(said: EvalResults) -> None:
    assert said.suite == Suite(CONTEXT).digest != Suite(CONTEXT + 1).digest
    assert set(said.passages) == set(PASSAGES)
    assert set(said.tasks) == {task.name for task in BUNDLED} | {"needle"}
    for task in (*BUNDLED, needle(CONTEXT)):
        assert set(said.tasks[task.name].answers) == {item.id for item in task.items}
    assert len(said.defaults) == len(DEFAULT_REQUESTS)
    assert all(len(answers) == SAMPLES for answers in said.defaults.values())
    assert all(len(nats) == SAMPLES and max(nats) < 0 for nats in said.default_nats.values())
    assert said.conduct is not None and len(said.conduct.ours_s) == len(said.conduct.disguised_s) == PAIRS
    assert EvalResults.from_json(json.loads(json.dumps(said.to_json()))) == said


def test_a_random_model_keeps_enforced_forms_and_reads_what_fits(said: EvalResults) -> None:
    forms = [*said.tasks["tools"].answers.values(), *said.tasks["schemas"].answers.values()]
    assert all(answer.score >= 0.5 for answer in forms)
    eighth, whole = said.tasks["needle"].answers["eighth"], said.tasks["needle"].answers["whole"]
    assert (eighth.error, eighth.prompt_tokens is not None) == ("", True)
    assert "400" in whole.error and whole.score == 0.0


def test_the_prompts_fit_small_contexts_and_the_needles_fill_the_declared_one() -> None:
    for task in BUNDLED:
        for item in task.items:
            body = item.body
            text = body.get("prompt") or body["messages"][0]["content"]
            assert len(text) <= 450 and body["temperature"] == 0
        assert len({item.id for item in task.items}) == len(task.items)
    assert all(len(text) <= 420 for text in PASSAGES.values())
    assert held_out(512) == PASSAGES and len(held_out(2048)["all"]) > sum(map(len, PASSAGES.values()))
    for context in (512, 2048):
        longest = max(len(str(item.body).split()) for item in needle(context).items)
        assert 0.7 * context < longest < 0.95 * context


@asynccontextmanager
async def answering(*answers: tuple[int, object]) -> AsyncIterator[int]:
    """Gives these answers in turn, the last one for ever."""
    left = list(answers)

    async def answer(_: web.Request) -> web.Response:
        status, body = left.pop(0) if len(left) > 1 else left[0]
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with listening(app) as port:
        yield port


@contextmanager
def asked_of(*answers: tuple[int, object]) -> Iterator[Endpoint]:
    with serve_in_thread(lambda: answering(*answers)) as port:
        yield Endpoint(f"http://127.0.0.1:{port}", "m")


def ask(endpoint: Endpoint, path: str = CHAT, timeout_s: float = 60.0) -> dict[str, object]:
    async def one() -> dict[str, object]:
        async with open_asker(endpoint, timeout_s) as asker:
            return await asker.ask(path, {})

    return asyncio.run(one())


def test_a_busy_server_is_asked_again_and_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.evals.asker.PAUSE_S", 0.01)
    with asked_of((503, {}), (429, {}), (200, {"said": 1})) as endpoint:
        assert ask(endpoint) == {"said": 1}
    with asked_of((503, {})) as endpoint, pytest.raises(NoAnswer, match=r"within 0\.2 s"):
        ask(endpoint, timeout_s=0.2)
    with asked_of((400, {"error": "no"})) as endpoint, pytest.raises(NoAnswer, match="answered 400"):
        ask(endpoint)
    with asked_of((200, [])) as endpoint, pytest.raises(NoAnswer, match="JSON object"):
        ask(endpoint)
    with pytest.raises(LaunchFailed, match="got no answer"):
        ask(Endpoint(f"http://127.0.0.1:{free_port()}", "m"), COMPLETIONS)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0, -1.0]},
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, None, -1.0], "top_logprobs": [None, {}, {}]},
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0], "top_logprobs": [None, {}, {}]},
        {"tokens": ["a", "b"], "token_logprobs": [None, -1.0], "top_logprobs": [None, {}]},
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, math.nan, -1.0], "top_logprobs": [None, {}, {}]},
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, 0.7, -1.0], "top_logprobs": [None, {}, {}]},
        {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0, -1.0], "top_logprobs": [None, {"x": math.inf}, {}]},
    ],
)
def test_a_server_that_scores_no_text_is_never_taken_for_one_that_does(logprobs: object) -> None:
    with asked_of((200, {"choices": [{"text": "", "logprobs": logprobs}]})) as endpoint, pytest.raises(LaunchFailed):
        scored_by(endpoint, {"p": "some text"})


def test_conduct_needs_whole_answers_under_either_identity() -> None:
    with asked_of((500, {"error": "x"})) as endpoint, pytest.raises(LaunchFailed, match="answered 500"):
        asyncio.run(record_conduct(endpoint))


def test_divergence_is_a_lower_bound_over_what_both_told() -> None:
    a = {"p": Passage(("x",), (-0.5,), ({"x": -0.5, "y": -2.0},))}
    lumped = {"p": Passage(("x",), (-0.7,), ({"x": -0.7, "z": -2.0},))}
    assert (
        0 < divergence_nats(a, lumped) < divergence_nats(a, {"p": Passage(("x",), (-0.7,), ({"x": -0.7, "y": -4.0},))})
    )
    with pytest.raises(ValueError, match="same tokens"):
        divergence_nats(a, {"p": replace(a["p"], tokens=("other",))})
    with pytest.raises(ValueError, match="passage"):
        perplexity({})


def test_a_suite_is_addressed_by_the_users_files(tmp_path: Path) -> None:
    from pydantic import TypeAdapter

    from tools.evals.declared import OwnEval

    declared = TypeAdapter(OwnEval).validate_python({"name": "tone", "scorer": "exact", "data": "tone.jsonl"})
    with pytest.raises(UserError, match=r"tone\.jsonl"):
        Suite.of([declared], tmp_path)
    data = tmp_path / "tone.jsonl"
    digests = set()
    for expected in ("a", "b"):
        data.write_text(json.dumps({"prompt": "x", "expected": expected}))
        digests.add(Suite.of([declared], tmp_path).digest)
    assert len({*digests, Suite().digest}) == 3
