"""Divergence: the same model agrees with itself, another one doesn't, and an unusable answer is an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_model import build_tiny_model
from tests.tools.test_evals_suite import scored_by
from tools.canonical import digest
from tools.evals.divergence import GreedyOutputs, agreement, record_greedy
from tools.evals.likelihood import cut_alike, divergence_nats, perplexity
from tools.evals.prompts import GREEDY_PROMPTS
from tools.targets import Endpoint, LaunchFailed
from tools.targets.bundled import BundledTarget
from tools.targets.process import free_port

answers = st.lists(st.integers(0, 3), max_size=6).map(tuple)
outputs = st.fixed_dictionaries({"p": answers, "q": answers}).map(GreedyOutputs)


@contextmanager
def answering(status: int, body: object) -> Iterator[Endpoint]:
    """A server that gives one fixed answer to everything."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            payload = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Endpoint(f"http://127.0.0.1:{server.server_port}", "m")
        finally:
            server.shutdown()
            thread.join()


def test_the_prompts_are_24_different_ones() -> None:
    assert len(set(GREEDY_PROMPTS)) == 24


def test_two_launches_of_one_config_agree_and_other_weights_do_not(tmp_path: Path) -> None:
    recorded, scored = [], []
    for seed, max_num_seqs in ((0, 32), (0, 2), (1, 32)):
        target = BundledTarget(build_tiny_model(tmp_path / f"m{seed}", seed=seed))
        config = target.knobs.resolve(
            {"num_threads": 1, "kv_cache_tokens": 4096, "dtype": "fp32", "max_num_seqs": max_num_seqs}
        )
        endpoint = target.launch(config, log=tmp_path / "engine.log")
        try:
            recorded.append(record_greedy(endpoint, max_tokens=8, order_seed=max_num_seqs))
            scored.append(scored_by(endpoint))
        finally:
            target.stop(endpoint)
    same, again, other = recorded
    assert set(same.tokens) == {digest(prompt) for prompt in GREEDY_PROMPTS}
    assert all(1 <= len(ids) <= 8 for ids in same.tokens.values())
    assert agreement(same, again) > 0.9
    assert agreement(same, other) < 0.5
    assert cut_alike(scored[0], scored[1]) and cut_alike(scored[0], scored[2])
    assert divergence_nats(scored[0], scored[1]) < 1e-4 < 0.5 < divergence_nats(scored[0], scored[2])
    assert min(map(perplexity, scored)) > 100


@given(a=outputs, b=outputs)
def test_agreement_is_a_share_is_symmetric_and_is_one_for_equal_answers_alone(
    a: GreedyOutputs, b: GreedyOutputs
) -> None:
    assert 0.0 <= agreement(a, b) == agreement(b, a) <= 1.0
    assert (agreement(a, b) == 1.0) == (a == b)
    assert GreedyOutputs.from_json(json.loads(json.dumps(a.to_json()))) == a
    assert (a.digest == b.digest) == (a == b)


def test_agreement_is_the_share_before_the_first_difference() -> None:
    a = GreedyOutputs({"p": (1, 2, 3, 4), "q": (1, 2)})
    assert agreement(a, GreedyOutputs({"p": (1, 2, 9, 4), "q": (1, 2, 3, 4)})) == 0.5
    with pytest.raises(ValueError, match="same prompts"):
        agreement(a, GreedyOutputs({"p": (1,)}))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"error": "x"}),
        (200, {"error": "x"}),
        (200, {"choices": []}),
        (200, {"choices": [{"message": {"content": "hi"}}]}),
        (200, {"choices": [{"token_ids": ["1"]}]}),
        (200, ["no object"]),
    ],
)
def test_an_answer_without_token_ids_is_never_taken_for_agreement(status: int, body: object) -> None:
    with answering(status, body) as endpoint, pytest.raises(LaunchFailed) as failure:
        record_greedy(endpoint, GREEDY_PROMPTS[:1])
    assert failure.value.kind == "unreachable"


def test_a_server_that_isnt_there_is_unreachable() -> None:
    with pytest.raises(LaunchFailed, match="got no answer"):
        record_greedy(Endpoint(f"http://127.0.0.1:{free_port()}", "m"), GREEDY_PROMPTS[:2])
