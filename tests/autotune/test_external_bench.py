"""Commands on servers that somebody else runs: deployments and URLs go one way; a change spoils what it touched."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.bench import ServedSubject
from autotune.cli import app
from autotune.endpoint import as_deployed
from tests.autotune.conftest import ENVIRONMENT
from tests.tiny_model import build_tiny_model
from tests.tools.moody_server import MoodyServer, serve_moody
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.measure.workload import materialise
from tools.targets.process import ServerProcess, allowed_environment, free_port

EXTERNAL = """\
name: theirs
model: {model}
target: {target}
config: {config}
workload:
  requests: 12
  prompt_tokens: 16
  output_tokens: 8
  arrivals: {{kind: closed, concurrency: 2}}
  timeout_s: 60
"""


def deployment(folder: Path, server_model: str, target: dict[str, object], config: dict[str, object]) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(EXTERNAL.format(model=server_model, target=json.dumps(target), config=json.dumps(config)))
    return path


def bench(*arguments: object) -> int:
    """Its exit code."""
    return int(app(["bench", *map(str, arguments), "--no-floor", "--json"], standalone_mode=False) or 0)


def restarted(server: MoodyServer) -> None:
    server.started_at = (server.started_at or 0.0) + 9


def test_what_isn_t_checked_is_said_with_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_moody(tls=True) as server:
        path = deployment(tmp_path, "moody", {"kind": "external", "url": server.url, "insecure": True}, {})
        assert bench(path) in (0, 3)  # 3: a busy machine makes the client late, and it says so
    found = json.loads(capsys.readouterr().out)
    assert found["completed"] == 12
    assert found["target"] == f"theirs at {server.url} (certificate not checked)"


@pytest.mark.parametrize("by", ["deployment", "url"])
def test_trials_before_a_restart_are_shown_and_none_across_it(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_moody() as server:
        path = deployment(tmp_path, "moody", {"kind": "external", "url": server.url}, {})
        there = (path,) if by == "deployment" else (server.url, "--workload", path)
        server.changing(restarted, after=12 + 1 + 12)  # each trial begins with a probe and ends after 12 requests
        code = bench(*there, "--trials", 3)
    found = json.loads(capsys.readouterr().out)
    assert code in (1, 3)
    assert "was started anew" in found["ended_early"]
    assert len(found.get("trials", [found])) == 1 and found["completed"] == 12


def test_a_url_that_can_t_be_measured_is_told_in_a_sentence(tmp_path: Path) -> None:
    with serve_moody(MoodyServer(key="k")) as server, pytest.raises(UserError, match="refuses the key"):
        bench(server.url)
    with pytest.raises(UserError, match="doesn't answer"):
        bench(server.url)
    with serve_moody() as server, pytest.raises(UserError, match="serves another model: expected 'x', it serves moody"):
        bench(server.url, "--model", "x")


class Engine:
    """The real engine on one port, whoever is served there."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: ServerProcess | None = None

    def serve(self, model: Path) -> None:
        """Serve `model` in place of what is served now, under the same name."""
        self.kill()
        command = [sys.executable, "-P", "-m", "engine", "serve", str(model), "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--served-model-name", "tiny", "--num-threads", "1", "--dtype", "fp32"]
        command += ["--kv-cache-tokens", "2048", "--max-num-seqs", "2"]
        env = {**allowed_environment(), "PYTHONPATH": ENVIRONMENT["PYTHONPATH"], "HF_HUB_OFFLINE": "1"}
        self._process = ServerProcess(command, log=self._folder / "engine.log", env=env)
        self._process.wait_ready(self.url, timeout_s=120)

    def kill(self) -> None:
        if self._process is not None:
            self._process.stop(grace_s=0.0)


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    there = Engine(folder)
    try:
        yield there
    finally:
        there.kill()


def test_the_real_engine_is_measured_swapped_and_killed_in_the_middle_of_a_load(
    tmp_path: Path, tiny_model: Path
) -> None:
    other = build_tiny_model(tmp_path / "other", seed=1)
    with engine(tmp_path) as there:
        there.serve(tiny_model)
        target = {"kind": "external", "url": there.url, "engine": "bundled", "reset": True}
        file = load_deployment(deployment(tmp_path, "tiny", target, {"max_num_seqs": 2}))
        workload = materialise(file.deployment.workload)

        def at(number: int, act: Callable[[], None]) -> Callable[[int, int, float | None], None]:
            def told(done: int, total: int, seconds_left: float | None) -> None:
                if done == number:
                    act()

            return told

        subject = ServedSubject(as_deployed(file), tmp_path / "log")
        measured = subject.measure(workload, None)
        assert measured.completed == 12 and measured.counted("generation_tokens") == 12 * 8
        assert measured.identity_before is not None and measured.identity_before.config["max_num_seqs"] == 2
        with pytest.raises(UserError, match=r"serves another model: the digest of its model was .* also started anew"):
            subject.measure(workload, at(4, lambda: there.serve(other)))
        subject = ServedSubject(as_deployed(file), tmp_path / "log")
        with pytest.raises(UserError, match="doesn't answer"):
            subject.measure(workload, at(4, there.kill))
