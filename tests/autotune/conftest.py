"""A git repository with a poorly configured deployment of a tiny random model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotune.harness import RunDir
from tests.tiny_model import build_tiny_model

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1"}

DEPLOYMENT = """\
# A tiny assistant. The comments, the order and the spacing of this file are its owner's.
name: tiny-chat
model: {model}
config:
  dtype: fp32
  max_num_seqs: 1                  # autotune: managed
  max_num_batched_tokens:   64     # autotune: managed
  enable_prefix_caching: false     # autotune: managed
  kv_cache_tokens: 4096
  num_threads: 1
  max_model_len: 512

workload:
  class: chat
  requests: 24
  system_prompt_tokens: 24
  prompt_tokens: {{min: 10, max: 24}}
  output_tokens: {{min: 12, max: 20}}
  arrivals: {{kind: burst}}
  timeout_s: 30

slo: {{ttft_ms: {{p95: 5000}}}}
objective: {{metric: p95_ttft_ms, min_effect: 0.1}}
acceptance: {{trials_per_arm: 4, alpha: 0.05}}
"""


def git(where: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Owner", "-c", "user.email=owner@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_deployment(root: Path, text: str) -> Path:
    """A new repository at `root` that holds `text` as its deployment.yaml, committed."""
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    deployment = root / "deployment.yaml"
    deployment.write_text(text)
    git(root, "add", "deployment.yaml")
    git(root, "commit", "--quiet", "-m", "Deploy")
    return deployment


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def make_repo(tmp_path: Path, tiny_model: Path) -> Callable[..., Path]:
    """Builds the repository and returns its deployment file; `edit` changes the text before it is committed."""

    def make(edit: Callable[[str], str] = lambda text: text, name: str = "service") -> Path:
        return commit_deployment(tmp_path / name, edit(DEPLOYMENT.format(model=tiny_model)))

    return make


@dataclass(frozen=True)
class Tuned:
    """A finished run of `autotune tune` with the expert, as a user starts it."""

    deployment: Path
    run: RunDir
    result: dict[str, Any]
    "What --json printed."


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Tuned:
    root = tmp_path_factory.mktemp("tuned")
    deployment = commit_deployment(root / "service", DEPLOYMENT.format(model=tiny_model))
    command = [sys.executable, "-m", "autotune", "tune", str(deployment), "--trials", "3", "--json"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=280, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return Tuned(deployment, RunDir.open(root / "runs", "latest"), json.loads(done.stdout))
