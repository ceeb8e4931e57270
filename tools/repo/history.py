"""History: what a repository's commits hold. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from git import Repo

from tools.errors import UserError
from tools.repo.checkout import opened, relative, resolve

__all__ = [
    "Revision",
    "commits_with_trailer",
    "file_at",
    "files_changed",
    "full_sha",
    "head_of",
    "message_of",
    "object_at",
    "read_trailers",
    "revisions",
    "root_of",
]


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit that changed a file, made `at` Unix seconds; `before` is empty where the first parent lacks the file."""

    sha: str
    at: int
    run: str
    "Its trailer Autotune-Run; empty where a person made it."
    before: str
    after: str


def root_of(place: Path) -> Path:
    """The top of the checkout around `place`.

    Raises:
        UserError: not in a git repository.
    """
    with opened(place.resolve()) as repo:
        return Path(str(repo.working_dir))


def full_sha(place: Path, name: str) -> str:
    """The id of the commit that `name` (a branch, a tag, the first digits of an id) stands for around `place`.

    Raises:
        UserError: no such commit.
    """
    with opened(place.resolve()) as repo:
        sha = resolve(repo, f"{name}^{{commit}}")
        if sha is None:
            raise UserError(f"{repo.working_dir}: expected a commit, found none called {name!r}; see `git log`")
        return sha


def head_of(file: Path) -> str:
    """The commit that the checkout around `file` stands on.

    Raises:
        UserError: not in a git repository, or no commit yet.
    """
    with opened(file.resolve()) as repo:
        head = resolve(repo, "HEAD^{commit}")
        if head is None:
            raise UserError(f"{repo.working_dir}: expected a repository with a commit, found none")
        return head


def object_at(file: Path, sha: str) -> str:
    """Git's id of the content of `file` in commit `sha`; empty where the file, or the commit, isn't there.

    Raises:
        UserError: not in a git repository.
    """
    file = file.resolve()
    with opened(file) as repo:
        return resolve(repo, f"{sha}:{relative(repo, file)}") or ""


def files_changed(file: Path, sha: str) -> list[str]:
    """Paths that commit `sha` changes against its parent, in the repository of `file`.

    Raises:
        UserError: no such commit, or it has no parent.
    """
    with opened(file.resolve()) as repo:
        if resolve(repo, f"{sha}^") is None:
            raise UserError(f"{repo.working_dir}: there is no commit {sha} with a parent")
        text = str(repo.git.diff_tree("--name-only", "--no-commit-id", "-r", "-z", sha))
    return [name for name in text.split("\0") if name]


def read_trailers(file: Path, sha: str) -> dict[str, str]:
    """Trailers of commit `sha` in the repository of `file`. A key that stands there twice has its values on two lines.

    Raises:
        UserError: no such commit.
    """
    with opened(file.resolve()) as repo:
        if resolve(repo, f"{sha}^{{commit}}") is None:
            raise UserError(f"{repo.working_dir}: there is no commit {sha}")
        text = str(repo.git.log("-1", "--format=%(trailers:only,unfold,separator=%x00,key_value_separator=%x01)", sha))
    trailers: dict[str, str] = {}
    for item in filter(None, text.split("\0")):
        key, _, value = item.partition("\x01")
        trailers[key] = f"{trailers[key]}\n{value}" if key in trailers else value
    return trailers


def message_of(file: Path, sha: str) -> str:
    """The whole message of commit `sha`, trailers included, in the repository of `file`.

    Raises:
        UserError: no such commit.
    """
    with opened(file.resolve()) as repo:
        if resolve(repo, f"{sha}^{{commit}}") is None:
            raise UserError(f"{repo.working_dir}: there is no commit {sha}")
        return str(repo.git.log("-1", "--format=%B", sha))


def file_at(file: Path, sha: str) -> str:
    """The text of `file` as commit `sha` has it, with the line ends that a checkout would give it.

    Raises:
        UserError: no such commit, or the file isn't in it.
    """
    file = file.resolve()
    with opened(file) as repo:
        name = f"{sha}:{relative(repo, file)}"
        if resolve(repo, name) is None:
            raise UserError(f"{file}: it isn't in commit {sha}, or there is no such commit")
        return str(repo.git.cat_file("--filters", name, strip_newline_in_stdout=False))


def commits_with_trailer(file: Path, key: str, value: str) -> list[str]:
    """Commits on any branch whose trailer `key` is `value`, newest first."""
    with opened(file.resolve()) as repo:
        text = str(repo.git.log("--branches", f"--format=%H%x00%(trailers:key={key},valueonly,unfold,separator=%x01)"))
    lines = (line.partition("\0") for line in text.splitlines())
    return [sha for sha, _, values in lines if value in values.split("\x01")]


def revisions(file: Path, limit: int) -> list[Revision]:
    """The last `limit` commits in HEAD's history that changed `file`, newest first.

    Raises:
        UserError: not in a git repository.
    """
    file = file.resolve()
    layout = "--format=%H%x00%ct%x00%(trailers:key=Autotune-Run,valueonly,unfold,separator=%x20)"
    with opened(file) as repo:
        name = relative(repo, file)
        lines = repo.git.log(f"-{limit}", layout, "HEAD", "--", name).splitlines() if resolve(repo, "HEAD") else []
        return [
            Revision(sha, int(at), run.strip(), _text(repo, f"{sha}^:{name}"), _text(repo, f"{sha}:{name}"))
            for sha, at, run in (line.split("\0") for line in lines)
        ]


def _text(repo: Repo, name: str) -> str:
    return "" if resolve(repo, name) is None else str(repo.git.cat_file("blob", name, strip_newline_in_stdout=False))
