"""Checkout: a user's repository opened so that paths are never patterns, no hook runs and nothing asks a question."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from git import Git, GitCommandError, InvalidGitRepositoryError, Repo

from tools.errors import UserError

__all__ = ["harden", "opened", "relative", "resolve"]


@contextmanager
def opened(file: Path) -> Iterator[Repo]:
    leaked = sorted(name for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE") if name in os.environ)
    if leaked:
        raise UserError(
            f"{', '.join(leaked)} is set, so git would act on another place; run autotune outside git's hooks"
        )
    folder = file if file.is_dir() else file.parent
    try:
        repo = Repo(folder, search_parent_directories=True)
    except (InvalidGitRepositoryError, OSError):
        raise UserError(
            f"{file}: expected a file in a git repository, found none here or above; run `git init`"
        ) from None
    with repo:
        if repo.bare:
            raise UserError(f"{file}: expected a checkout, found a bare repository; clone it")
        harden(repo.git)
        try:
            repo.git.rev_parse("--git-dir")
        except GitCommandError as error:
            raise UserError(f"{file}: git refuses this repository: {str(error.stderr).strip()}") from None
        yield repo


def harden(git: Git) -> None:
    """Paths are never patterns, no hook runs, nothing asks a question."""
    config = [
        f"core.hooksPath={os.devnull}",
        "core.safecrlf=false",
        "core.sparseCheckout=false",
        "core.fsmonitor=false",
        "i18n.commitEncoding=UTF-8",
    ]
    git.set_persistent_git_options(literal_pathspecs=True, c=config)
    git.update_environment(GIT_TERMINAL_PROMPT="0", GIT_EDITOR="true")


def resolve(repo: Repo, name: str) -> str | None:
    """Object id of `name`, or None where there is no such thing."""
    try:
        return str(repo.git.rev_parse("--verify", "--quiet", "--end-of-options", name))
    except GitCommandError:
        return None


def relative(repo: Repo, file: Path) -> str:
    """The path of `file` below the top, with slashes.

    Raises:
        UserError: it lies somewhere else, as a manifest in a repository of its own does.
    """
    top = Path(str(repo.working_dir)).resolve()
    if not file.is_relative_to(top):
        raise UserError(f"{file}: expected a file below {top}, where the rest of the change stands, found one outside")
    return file.relative_to(top).as_posix()
