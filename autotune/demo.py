"""Demo: a throwaway git repository with a plausible but poor deployment, ready to be tuned."""

from __future__ import annotations

import subprocess
from importlib import resources
from pathlib import Path

from tools.errors import UserError

__all__ = ["make_demo"]


def make_demo(directory: Path) -> Path:
    """Create the repository in `directory` with one commit; returns the deployment file in it.

    Raises:
        UserError: `directory` exists and isn't a demo that this made.
    """
    deployment = directory / "deployment.yaml"
    if directory.exists():
        if not (directory / ".git").is_dir() or not deployment.is_file():
            raise UserError(f"expected {directory} to be empty or an earlier demo; remove it or give another --dir")
        return deployment
    text = resources.files("configs").joinpath("demo/deployment.yaml").read_text()
    directory.mkdir(parents=True)
    deployment.write_text(text)
    _git(directory, "init", "--quiet", "--initial-branch=main")
    _git(directory, "add", "--", "deployment.yaml")
    identity = ("-c", "user.name=autotune demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
    _git(directory, *identity, "commit", "--quiet", "--no-verify", "-m", "Deploy SmolLM2 for the chat assistant")
    return deployment


def _git(directory: Path, *arguments: str) -> None:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {arguments[0]} failed in {directory}: {done.stderr.strip()}")
