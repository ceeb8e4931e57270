"""`tune` on a server that somebody else runs: what can't be applied is proposed and written down, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.autotune.conftest import ENVIRONMENT, commit_deployment, git
from tools.targets.bundled import BundledTarget
from tools.trial import launched

DEPLOYMENT = """\
name: theirs
model: {model}
target: {{kind: external, url: "{url}", engine: bundled, reset: true}}
config:
  max_num_seqs: 1         # autotune: managed
  kv_cache_tokens: 4096
workload:
  requests: 24
  prompt_tokens: 16
  output_tokens: 8
  arrivals: {{kind: closed, concurrency: 6}}
  timeout_s: 60
objective: {{metric: p95_ttft_ms}}
playbook: interactive-latency
"""


def test_what_can_t_be_applied_is_written_down(tmp_path: Path, tiny_model: Path) -> None:
    target = BundledTarget(tiny_model)
    config = target.knobs.resolve({"max_num_seqs": 1, "kv_cache_tokens": 4096, "num_threads": 1})
    with launched(target, config, log=tmp_path / "theirs.log", timeout_s=60) as endpoint:
        path = commit_deployment(tmp_path / "ops", DEPLOYMENT.format(model=endpoint.model, url=endpoint.base_url))
        done = subprocess.run(
            [sys.executable, "-m", "autotune", "tune", path, "--runs", tmp_path / "runs", "--trials", "2", "--json"],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
        target.counters(endpoint)  # it was loaded, and still serves
    assert done.returncode == 3, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["decision"] == "proposed" and "max_num_seqs" in told["sentence"]
    (run,) = (tmp_path / "runs").glob("theirs-*")
    patch = (run / "proposed.patch").read_text()
    assert "-  max_num_seqs: 1 " in patch and "+  max_num_seqs: " in patch
    assert git(path.parent, "branch", "--list", "autotune/*") == ""
    assert git(path.parent, "status", "--porcelain") == ""
    verified = subprocess.run(
        [sys.executable, "-m", "autotune", "verify", "--runs", tmp_path / "runs"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert verified.returncode == 0, verified.stdout
