"""Commit: the files of one change, one commit, on a branch of our own, and no checkout touched."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from git import GitCommandError, Repo

from tools.errors import UserError
from tools.repo.checkout import harden, opened, relative, resolve

__all__ = ["CommitResult", "RepoState", "check_committable", "commit_change", "files_to_change"]

BRANCH_PREFIX = "autotune/"
_NAME, _EMAIL = "autotune", "autotune@localhost"
_WORKTREE = "autotune-commit"


@dataclass(frozen=True, slots=True)
class RepoState:
    """Where a deployment file, and the files that change with it, stand in git."""

    root: Path
    "Top of the user's checkout."
    file: str
    "The deployment file's path below `root`, with slashes."
    head: str
    "The commit that the checkout stands on."
    blob: str
    "Object id of the file's content in that commit."
    others: Mapping[str, str] = field(default_factory=dict)
    "The same of each further file, by its path below `root`."

    @property
    def blobs(self) -> dict[str, str]:
        """Object ids of all files' contents, by path."""
        return {self.file: self.blob, **self.others}

    def to_json(self) -> dict[str, Any]:
        """Plain data. `blob` is called `object` there: in a ledger, a field called blob names its own raw data."""
        plain = {"root": str(self.root), "file": self.file, "head": self.head, "object": self.blob}
        return {**plain, "others": dict(self.others)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RepoState:
        """The state in a ledger; records of before there were further files lack them."""
        return cls(Path(data["root"]), data["file"], data["head"], data["object"], data.get("others", {}))


@dataclass(frozen=True, slots=True)
class CommitResult:
    sha: str
    branch: str
    created: bool
    "False where the branch already held this very commit."


@dataclass(frozen=True, slots=True)
class _Change:
    texts: Mapping[str, str]
    "New content by path below the top."
    message: str
    date_unix: int


def check_committable(file: Path, *others: Path) -> RepoState:
    """What a commit of `file` and `others` would be built on. Other changes in the checkout don't matter.

    Raises:
        UserError: not in a git repository, no commit yet, or a file isn't committed there as it stands.
    """
    file = file.resolve()
    with opened(file) as repo:
        return state_of(repo, file, *(other.resolve() for other in others))


def commit_change(
    texts: Mapping[Path, str],
    branch: str,
    message: str,
    trailers: Mapping[str, str],
    date_unix: int,
    *,
    base: RepoState | None = None,
) -> CommitResult:
    """Commit `texts`, contents by file, on `branch`: one commit on top of `base`, or of the checkout's HEAD.

    The commit is built in a temporary worktree without hooks or signature, so that the user's checkout, index and HEAD
    stay as they are and equal input gives an equal commit. A branch of ours from an earlier run is rebuilt.

    Args:
        texts: the deployment file first; all in its repository.
        base: the state that the change was judged on. If HEAD's version of a file has changed since, nothing is
            committed; what else HEAD has gained meanwhile is left out, for nobody judged it.

    Raises:
        UserError: as check_committable; the branch holds a commit of somebody else or is checked out; a file wouldn't
            change; one moved on since `base`, or the repository no longer has it.
    """
    if not branch.startswith(BRANCH_PREFIX):
        raise UserError(f"expected a branch below {BRANCH_PREFIX}, found {branch!r}")
    full_message = _with_trailers(message, trailers)
    file, *others = (path.resolve() for path in texts)
    with opened(file) as repo, _alone(repo):
        _require_branch_name(repo, branch)
        change = _Change(_below(repo, texts), full_message, date_unix)
        tip = resolve(repo, f"refs/heads/{branch}")
        known = resolve(repo, f"{tip}^") if tip else None
        if tip and known and (base is None or known == base.head) and _build(repo, known, change) == tip:
            return CommitResult(tip, branch, created=False)
        state = state_of(repo, file, *others)
        if base is not None:
            _require_unmoved(state, base)
        parent = _parent(repo, state, base)
        _require_ours(repo, branch, tip, (state.head, parent))
        sha = _build(repo, parent, change)
        _require_only(repo, change, parent, sha)
        _move_branch(repo, branch, sha, tip)
    return CommitResult(sha, branch, created=True)


def files_to_change(texts: Mapping[Path, str]) -> tuple[list[str], list[str]]:
    """The paths of `texts` in their repository, and all paths that a commit of those contents would change."""
    with opened(next(iter(texts)).resolve()) as repo, _alone(repo):
        change = _Change(_below(repo, texts), "preview", 0)
        built = _build(repo, str(resolve(repo, "HEAD^{commit}")), change)
        names = str(repo.git.diff_tree("--name-only", "--no-commit-id", "-r", "-z", built))
    return list(change.texts), [name for name in names.split("\0") if name]


def state_of(repo: Repo, file: Path, *others: Path) -> RepoState:
    head = resolve(repo, "HEAD^{commit}")
    if head is None:
        raise UserError(
            f"{repo.working_dir}: expected a repository with a commit, found none; commit the deployment first"
        )
    name, blob = _committed(repo, file)
    return RepoState(Path(str(repo.working_dir)), name, head, blob, dict(_committed(repo, other) for other in others))


def _committed(repo: Repo, file: Path) -> tuple[str, str]:
    """The path of `file` below the top, and the object that HEAD holds there: just what lies in the checkout."""
    name = relative(repo, file)
    flag = str(repo.git.ls_files("-v", "--", name))[:1]
    blob = resolve(repo, f"HEAD:{name}")
    remedy = f"commit or undo that first: git -C '{repo.working_dir}' status -- '{name}'"
    if not flag or blob is None:
        raise UserError(f"{file}: expected a committed file, found one that isn't in HEAD; {remedy}")
    if flag != "H":
        raise UserError(
            f"{file}: git is told to overlook changes of it (ls-files -v says {flag}); undo that, then {remedy}"
        )
    if repo.git.status("--porcelain=v1", "--no-renames", "--", name):
        raise UserError(f"{file}: expected it as committed, found an uncommitted change; {remedy}")
    return name, blob


def _below(repo: Repo, texts: Mapping[Path, str]) -> dict[str, str]:
    return {relative(repo, file.resolve()): text for file, text in texts.items()}


@contextmanager
def _alone(repo: Repo) -> Iterator[None]:
    """One committer per repository. The lock is on the git directory itself, so it leaves no file and dies with us."""
    fd = os.open(repo.common_dir, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _worktree(repo: Repo, commit: str) -> Iterator[Repo]:
    """A worktree with an index at `commit` and no files, inside the git directory. Removes what a killed run left."""
    place = Path(repo.common_dir) / _WORKTREE
    _remove_worktree(repo, place)
    try:
        repo.git.worktree("add", "--detach", "--no-checkout", "--", str(place), commit)
        with Repo(place) as tree:
            harden(tree.git)
            tree.git.read_tree("HEAD")
            yield tree
    finally:
        _remove_worktree(repo, place)


def _remove_worktree(repo: Repo, place: Path) -> None:
    """Remove `place` and git's record of it, in whatever state a crash left the two; no other worktree is pruned."""
    shutil.rmtree(place, ignore_errors=True)
    records = Path(repo.common_dir) / "worktrees"
    for record in records.glob(f"{_WORKTREE}*"):
        pointer = record / "gitdir"
        if not pointer.exists() or Path(pointer.read_text().strip()).parent.name == _WORKTREE:
            shutil.rmtree(record, ignore_errors=True)
    if records.is_dir() and not any(records.iterdir()):
        records.rmdir()


def _build(repo: Repo, parent: str, change: _Change) -> str:
    """The commit of `change` on top of `parent`. Equal input on an equal parent gives an equal id."""
    who = {
        "GIT_AUTHOR_NAME": _config(repo, "user.name") or _NAME,
        "GIT_AUTHOR_EMAIL": _config(repo, "user.email") or _EMAIL,
        "GIT_AUTHOR_DATE": f"@{change.date_unix} +0000",
        "GIT_COMMITTER_NAME": _NAME,
        "GIT_COMMITTER_EMAIL": _EMAIL,
        "GIT_COMMITTER_DATE": f"@{change.date_unix} +0000",
    }
    with _worktree(repo, parent) as tree:
        for name, text in change.texts.items():
            target = Path(str(tree.working_dir)) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
            if str(tree.git.ls_files("--stage", "--", name)).startswith("100755"):
                target.chmod(0o755)  # a script that starts a server stays one that can be run
        tree.git.add("--", *change.texts)  # through the repository's own line-end and clean filters
        with tree.git.custom_environment(**who):
            return str(tree.git.commit_tree(tree.git.write_tree(), "-p", parent, "-m", change.message))


def _parent(repo: Repo, state: RepoState, base: RepoState | None) -> str:
    if base is None:
        return state.head
    if resolve(repo, f"{base.head}^{{commit}}") is None:
        raise UserError(
            f"{repo.working_dir}: the commit {base.head[:12]} that was judged isn't there any more; tune again"
        )
    return base.head


def _require_unmoved(state: RepoState, base: RepoState) -> None:
    for name, blob in state.blobs.items():
        if base.blobs.get(name) != blob:
            raise UserError(
                f"{state.root / name}: a commit changed it since the run began; tune again from the new version"
            )


def _require_only(repo: Repo, change: _Change, parent: str, sha: str) -> None:
    """Each file of the change is modified, and nothing else."""
    listed = str(repo.git.diff_tree("-r", "-z", "--name-status", "--no-renames", parent, sha)).strip("\0").split("\0")
    touched = dict(zip(listed[1::2], listed[::2], strict=True)) if listed[0] else {}
    if same := [name for name in change.texts if name not in touched]:
        raise UserError(f"{', '.join(same)}: the new content is what HEAD already holds; there is nothing to commit")
    if touched != dict.fromkeys(change.texts, "M"):
        raise UserError(f"{', '.join(change.texts)}: the commit would change more than this; nothing was committed")


def _config(repo: Repo, name: str) -> str:
    try:
        return str(repo.git.config("--get", name))
    except GitCommandError:
        return ""


def _require_ours(repo: Repo, branch: str, tip: str | None, bases: tuple[str, ...]) -> None:
    if tip is None:
        return
    foreign = [
        line.split("\0")[0][:12]
        for line in str(repo.git.log("--format=%H%x00%ce", tip, *(f"^{base}" for base in bases))).splitlines()
        if not line.endswith(f"\0{_EMAIL}")
    ]
    if foreign:
        raise UserError(
            f"branch {branch} holds {len(foreign)} commit(s) that autotune didn't make ({', '.join(foreign[:3])}); "
            "it won't be overwritten: merge, rename or delete the branch first"
        )
    if f"branch refs/heads/{branch}" in str(repo.git.worktree("list", "--porcelain")).splitlines():
        raise UserError(f"branch {branch} is checked out, so it can't be rebuilt; switch to another branch first")


def _require_branch_name(repo: Repo, branch: str) -> None:
    try:
        repo.git.check_ref_format(f"refs/heads/{branch}")
    except GitCommandError:
        raise UserError(f"{branch!r} can't be the name of a git branch") from None


def _move_branch(repo: Repo, branch: str, sha: str, tip: str | None) -> None:
    """Create or move the branch, only if it still stands where it was looked at."""
    try:
        repo.git.update_ref("-m", "autotune: verified change", f"refs/heads/{branch}", sha, tip or "0" * len(sha))
    except GitCommandError as error:
        raise UserError(f"branch {branch} couldn't be set to {sha[:12]}: {str(error.stderr).strip()}") from None


def _with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    for key, value in trailers.items():
        if (
            not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", key)
            or not value.isprintable()
            or value != value.strip()
            or not value
        ):
            raise UserError(f"{key!r}: {value!r} can't be a trailer: expected a word, and a text of one line")
    if "\0" in message:
        raise UserError("a commit message can't hold a NUL character")
    return message.strip() + "\n\n" + "\n".join(f"{key}: {value}" for key, value in trailers.items())
