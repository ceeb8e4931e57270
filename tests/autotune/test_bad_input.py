"""Bad input is refused with a sentence that helps, and leaves nothing behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.autotune.conftest import DEPLOYMENT, ENVIRONMENT, git
from tests.autotune.test_crash import engines_of

Edit = Callable[[str], str]


def autotune(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT)


def replacing(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "code", "says"),
    [
        pytest.param(
            replacing("max_num_seqs: 1 ", "max_num_seq: 1 "), 1, "did you mean 'max_num_seqs'", id="unknown knob"
        ),
        pytest.param(
            replacing("max_num_seqs: 1 ", "max_num_seqs: lots "), 1, "expected a whole number", id="wrong type"
        ),
        pytest.param(replacing("max_num_seqs: 1 ", "max_num_seqs: 0 "), 1, "1 to 512", id="out of range"),
        pytest.param(replacing("objective:", "objectiv:"), 1, "did you mean 'objective'", id="unknown key"),
        pytest.param(replacing("p95_ttft_ms", "p95_tft_ms"), 1, "did you mean p95_ttft_ms", id="unknown metric"),
        pytest.param(replacing("{p95: 5000}", "{p99: 5000}"), 1, "at least 368 requests", id="p99 of 24 requests"),
        pytest.param(replacing("trials_per_arm: 4", "trials_per_arm: 5"), 1, "multiple of 2", id="odd arms"),
        pytest.param(
            replacing("max_num_seqs: 1 ", "max_num_seqs: 1\n  max_num_seqs: 2 "), 1, "a second time", id="duplicate key"
        ),
        pytest.param(replacing("{ttft_ms: {p95: 5000}}", "{ttft_ms: {p95: 0.0001}}"), 2, "roofline's floor", id="SLO"),
        pytest.param(replacing("# autotune: managed", "# mine"), 1, "mark at least one", id="nothing managed"),
        pytest.param(
            replacing("workload:", "playbook: interactiv\nworkload:"), 1, "interactive-latency", id="playbook"
        ),
        pytest.param(lambda text: text.replace("model: ", "model: /nowhere", 1), 1, "/nowhere", id="missing model"),
        pytest.param(
            replacing("workload:", "playbook: odd.yaml\nworkload:"), 1, "odd.yaml", id="missing playbook file"
        ),
        pytest.param(lambda text: "name: [oops\n" + text, 1, "YAML", id="not YAML"),
    ],
)
def test_a_deployment_that_cannot_work_is_refused_before_anything_exists(
    make_repo: Callable[..., Path], tmp_path: Path, edit: Edit, code: int, says: str
) -> None:
    deployment = make_repo(edit)
    done = autotune("tune", deployment, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
    assert git(deployment.parent, "status", "--porcelain") == ""
    assert git(deployment.parent, "branch", "--list") == "* main"


def test_a_missing_file_a_folder_without_git_and_an_uncommitted_change_are_refused(
    make_repo: Callable[..., Path], tmp_path: Path, tiny_model: Path
) -> None:
    missing = autotune("tune", "nowhere.yaml", cwd=tmp_path)
    assert missing.returncode == 1 and "nowhere.yaml" in missing.stderr

    loose = tmp_path / "loose.yaml"
    loose.write_text(DEPLOYMENT.format(model=tiny_model))
    assert "git init" in autotune("tune", loose, cwd=tmp_path).stderr

    deployment = make_repo()
    deployment.write_text(deployment.read_text() + "# a thought\n")
    changed = autotune("tune", deployment, cwd=tmp_path)
    assert changed.returncode == 1 and "commit" in changed.stderr
    assert deployment.read_text().endswith("# a thought\n")
    assert not (tmp_path / "runs").exists()


def test_a_server_that_never_becomes_ready_is_said_so_and_reaped(
    make_repo: Callable[..., Path], tmp_path: Path, tiny_model: Path
) -> None:
    deployment = make_repo(lambda text: text + "ready_timeout_s: 0.05\n")
    done = autotune("tune", deployment, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert "doesn't run (timeout)" in done.stderr and "log" in done.stderr
    assert '"exit_code": 1' in done.stdout
    assert list((tmp_path / "runs").glob("*/*")) == []
    assert engines_of(tiny_model) == []
    assert git(deployment.parent, "branch", "--list") == "* main"


def test_an_llm_without_its_key_is_refused_before_anything_exists(
    make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    llm = (
        "--proposer",
        "llm",
        "--llm-url",
        "http://127.0.0.1:9/v1",
        "--llm-model",
        "m",
        "--llm-key-env",
        "NO_SUCH_KEY",
    )
    done = autotune("tune", make_repo(), *llm, cwd=tmp_path)
    assert done.returncode == 1 and "NO_SUCH_KEY" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_taken_port_is_refused_at_once(tiny_model: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = autotune("serve", tiny_model, "--host", "127.0.0.1", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert "port_taken" in done.stderr and str(port) in done.stderr and "Traceback" not in done.stderr


def test_a_url_where_nothing_answers_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = autotune("bench", f"http://127.0.0.1:{port}", "--requests", "2", cwd=tmp_path)
    assert done.returncode == 1 and "is the URL right" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("tune", "d.yaml", "--budget", "soon"), "90s, 15m, 1.5h or 30d"),
        (("tune", "d.yaml", "--proposer", "oracle"), "expert or llm"),
        (("tune", "d.yaml", "--proposer", "llm"), "--llm-url"),
        (("tune", "d.yaml", "--proposer", "llm", "--llm-usd", "1"), "--llm-price"),
        (("resume", "nothing"), "no run 'nothing'"),
        (("report",), "autotune tune"),
        (("bench", "http://127.0.0.1:9", "--rate", "1", "--burst"), "keep one"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = autotune(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr and "Traceback" not in done.stderr
