"""The apply hook: the owner's program changes an external server, and puts it back whatever happens."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.moody_server import MoodyServer, serve_moody
from tools.errors import UserError
from tools.measure import WorkloadSpec
from tools.measure.workload import materialise
from tools.targets.external.hook import ApplyHook
from tools.targets.external.spec import ExternalSpec
from tools.targets.external.target import ExternalTarget
from tools.targets.knobs import Config
from tools.targets.target import LaunchFailed
from tools.trial import run_trial

APPLY = """\
import json, os, sys, urllib.request
config = json.load(sys.stdin)
assert os.environ["AUTOTUNE_KNOB_MAX_RUNNING_REQUESTS"] == str(config["max_running_requests"])
request = urllib.request.Request(os.environ["AUTOTUNE_URL"] + "/admin", json.dumps(config).encode(), method="PUT")
urllib.request.urlopen(request).read()
with open("applied", "a") as record:
    record.write(json.dumps(config) + "\\n")
print("applied", os.environ["AUTOTUNE_CONFIG_DIGEST"])
"""
LOAD = materialise(
    WorkloadSpec.model_validate(
        {"requests": 4, "prompt_tokens": 12, "output_tokens": 4, "arrivals": {"kind": "burst"}, "timeout_s": 10}
    )
)


@pytest.fixture
def server() -> Iterator[MoodyServer]:
    with serve_moody(MoodyServer(settings={"max_running_requests": 8})) as server:
        yield server


def hooked(server: MoodyServer, folder: Path, text: str = APPLY, **fields: object) -> ExternalTarget:
    (folder / "apply.py").write_text(text)
    given = {"url": server.url, "engine": "sglang", "apply": [sys.executable, "apply.py"], **fields}
    spec = ExternalSpec.model_validate({"kind": "external", **given})
    return ExternalTarget(spec, server.model, {"max_running_requests": 8}, folder)


def applied(folder: Path) -> list[int]:
    return [json.loads(line)["max_running_requests"] for line in (folder / "applied").read_text().splitlines()]


def test_a_config_is_applied_measured_and_the_own_one_put_back(server: MoodyServer, tmp_path: Path) -> None:
    there = hooked(server, tmp_path)
    assert there.can_apply and there.restore() == ()  # nothing was changed yet
    baseline, other = there.baseline, there.knobs.resolve({"max_running_requests": 16})
    first = run_trial(there, baseline, LOAD, log=tmp_path / "1.log", ready_timeout_s=5)
    second = run_trial(there, other, LOAD, log=tmp_path / "2.log", ready_timeout_s=5)
    assert first.measurement is not None and second.measurement is not None, (first.failure, second.failure)
    one, two = first.measurement.identity_before, second.measurement.identity_before
    assert one is not None and two is not None
    assert two.config == {"max_running_requests": 16} and two.config_digest == other.digest and two.unreported == ()
    assert two.started_at > one.started_at and two.process_started_at >= one.process_started_at > 0
    assert other.digest in (tmp_path / "2.log").read_text()
    assert applied(tmp_path) == [8, 16]
    (said,) = there.restore()
    assert "has its own config again" in said and server.settings["max_running_requests"] == 8
    assert there.restore() == () and applied(tmp_path) == [8, 16, 8]


def test_a_server_measured_as_it_stands_is_never_started_anew(server: MoodyServer, tmp_path: Path) -> None:
    there = hooked(server, tmp_path).standing()
    assert run_trial(there, there.baseline, LOAD, log=tmp_path / "log", ready_timeout_s=5).measurement is not None
    assert not there.can_apply and not (tmp_path / "applied").exists()


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("import sys\nprint('no such node')\nsys.exit(3)", "bad_config", "ended with status 3"),
        ("", "timeout", "it still runs as it did before"),
        ("import time\ntime.sleep(60)", "timeout", "took more than"),
        (
            APPLY.replace("json.dumps(config).encode()", "b'{\"max_running_requests\": 12}'"),
            "unreachable",
            "it tells 12",
        ),
    ],
)
def test_a_config_that_wasn_t_applied_is_no_measurement(
    server: MoodyServer, tmp_path: Path, text: str, kind: str, says: str
) -> None:
    there = hooked(server, tmp_path, text, apply_timeout_s=1.5)
    config = there.knobs.resolve({"max_running_requests": 16})
    result = run_trial(there, config, LOAD, log=tmp_path / "log", ready_timeout_s=5)
    assert result.measurement is None and result.failure is not None
    assert (result.failure.kind, says in result.failure.message) == (kind, True), result.failure
    if "no such node" in text:
        assert "no such node" in result.failure.log_tail
    (said,) = there.restore()  # what may have been begun couldn't be undone, and that is said
    assert "may still run with a trial's config" in said


def test_a_server_without_the_config_that_its_owner_states_isn_t_taken_for_it(
    server: MoodyServer, tmp_path: Path
) -> None:
    server.settings["max_running_requests"] = 12
    with pytest.raises(UserError, match="expected max_running_requests 8, it tells 12"):
        hooked(server, tmp_path).check()


def test_ctrl_c_ends_the_program_and_the_own_config_is_put_back(
    server: MoodyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = hooked(server, tmp_path)
    there.launch(there.knobs.resolve({"max_running_requests": 16}), log=tmp_path / "log")
    assert server.settings["max_running_requests"] == 16

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    (tmp_path / "apply.py").write_text("pass")  # ends, and nothing changes: it is waited for
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(time, "sleep", interrupted)
        there.launch(there.knobs.resolve({"max_running_requests": 32}), log=tmp_path / "log")
    (tmp_path / "apply.py").write_text(APPLY)
    assert "has its own config again" in there.restore()[0]
    assert server.settings["max_running_requests"] == 8


def test_a_program_that_floods_its_output_and_leaves_children_is_read_and_reaped(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "sys.stdout.write('x' * 4_000_000)\n"
        "sys.stdout.flush()\n"
        "time.sleep(60 if len(sys.argv) > 1 else 0)\n"
    )
    hook = ApplyHook([sys.executable, "flood.py", "hang"], tmp_path, {})
    with pytest.raises(LaunchFailed, match="took more than") as late:
        hook.run(Config({}), log=None, timeout_s=2.0)
    assert len(late.value.log_tail) <= 2000
    assert not alive(int((tmp_path / "child").read_text()))
    done = ApplyHook([sys.executable, "flood.py"], tmp_path, {})
    done.run(Config({}), log=tmp_path / "log", timeout_s=30.0)
    assert (tmp_path / "log").stat().st_size <= 64 << 10
    child = int((tmp_path / "child").read_text())
    assert alive(child)  # what it leaves behind may be the very server
    os.kill(child, 9)


def test_a_program_that_isn_t_there_is_said_before_anything_runs(server: MoodyServer, tmp_path: Path) -> None:
    for word in ("./nothing.sh", "no-such-program-anywhere"):
        with pytest.raises(UserError, match="expected a program that may be executed"):
            hooked(server, tmp_path, apply=[word])


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended may still have an entry until whoever inherits it looks."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        if time.monotonic() > deadline - 4.5:
            break
        time.sleep(0.05)
    return True
