"""Commits: one file, on our branch, and whatever the user has in the checkout stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.errors import UserError
from tools.repo import (
    CommitResult,
    RepoState,
    check_committable,
    commit_change,
    commits_with_trailer,
    file_at,
    files_to_change,
    full_sha,
    head_of,
    message_of,
    object_at,
    read_trailers,
    root_of,
)

TEXT = "config:\n  max_num_seqs: 8  # autotune: managed\n"
BETTER = TEXT.replace("8", "64")
BRANCH = "autotune/demo/max-num-seqs"
TRAILERS = {"Autotune-Run": "r1", "Autotune-Ledger": "ab" * 32}


def git(folder: Path, *args: str) -> str:
    run = subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.fixture(autouse=True)
def lonely_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """git as on a machine where nobody has configured it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A committed deployment in a subdirectory, in a checkout full of other dirt."""
    root = tmp_path / "our repo"
    folder = root / "configs [prod]"
    folder.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (folder / "deploy ment.yaml").write_text(TEXT)
    (root / "README").write_text("hello\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "README").write_text("half-written\n")
    (root / "staged").write_text("staged\n")
    git(root, "add", "staged")
    (root / "untracked").write_text("new\n")
    return folder / "deploy ment.yaml"


def commit(file: Path, text: str = BETTER, date: int = 1_700_000_000, **trailers: str) -> CommitResult:
    return commit_change({file: text}, BRANCH, "Serve 64 sequences\n\nNote: prose", {**TRAILERS, **trailers}, date)


def snapshot(root: Path) -> object:
    """Everything of the user's that must not move: HEAD, index, files, stale records."""
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts}
    state = git(root, "status", "--porcelain"), git(root, "ls-files", "-s"), (root / ".git" / "HEAD").read_text()
    return files, state, git(root, "worktree", "list"), sorted(p.name for p in (root / ".git").iterdir())


def test_the_commit_holds_the_one_change_and_the_checkout_is_untouched(file: Path) -> None:
    root = file.parents[1]
    before = snapshot(root)
    result = commit(file)
    assert result.created and git(root, "rev-parse", BRANCH) == result.sha
    assert git(root, "diff", "--name-only", "main", BRANCH) == "configs [prod]/deploy ment.yaml"
    assert git(root, "show", f"{BRANCH}:configs [prod]/deploy ment.yaml") == BETTER.strip()
    assert git(root, "rev-parse", f"{BRANCH}^") == git(root, "rev-parse", "main")
    assert snapshot(root) == before
    assert read_trailers(file, result.sha) == TRAILERS
    assert (file_at(file, result.sha), file_at(file, "main")) == (BETTER, TEXT)
    assert commits_with_trailer(file, "Autotune-Run", "r1") == [result.sha]
    assert commits_with_trailer(file, "Autotune-Run", "r2") == []
    assert git(root, "fsck", "--no-dangling") == ""


def test_the_same_input_gives_the_same_commit_and_is_made_once(file: Path, tmp_path: Path) -> None:
    shutil.copytree(file.parents[1], tmp_path / "copy")
    first = commit(file)
    again = commit(file)
    elsewhere = commit(tmp_path / "copy" / file.parent.name / file.name)
    assert (again.sha, again.created) == (first.sha, False)
    assert (elsewhere.sha, elsewhere.created) == (first.sha, True)


@pytest.mark.parametrize("move", [["commit", "-qm", "other", "staged"], ["checkout", "-q", "-f", BRANCH]])
def test_a_commit_made_before_a_crash_is_found_wherever_head_went(file: Path, move: list[str]) -> None:
    first = commit(file)
    git(file.parents[1], *move)
    assert commit(file) == CommitResult(first.sha, BRANCH, created=False)


def test_our_own_older_commit_is_rebuilt_on_the_new_head(file: Path) -> None:
    commit(file)
    git(file.parents[1], "commit", "-qm", "other", "staged")
    result = commit(file, TEXT.replace("8", "32"))
    assert result.created
    assert git(file.parents[1], "rev-list", "--count", f"main..{BRANCH}") == "1"


def test_a_branch_with_a_commit_of_somebody_else_is_left_alone(file: Path) -> None:
    root = file.parents[1]
    commit(file)
    git(root, "checkout", "-qf", BRANCH)
    git(root, "commit", "-q", "--amend", "-m", "mine now")
    git(root, "checkout", "-qf", "main")
    tip = git(root, "rev-parse", BRANCH)
    with pytest.raises(UserError, match="autotune didn't make"):
        commit(file, TEXT.replace("8", "32"))
    assert git(root, "rev-parse", BRANCH) == tip


def test_the_users_identity_is_the_author_and_autotune_the_committer(file: Path) -> None:
    root = file.parents[1]
    assert git(root, "log", "-1", "--format=%an %cn <%ce> %at %ct", commit(file).sha) == (
        "autotune autotune <autotune@localhost> 1700000000 1700000000"
    )
    git(root, "config", "user.name", "Grace")
    assert git(root, "log", "-1", "--format=%an %cn", commit(file, date=5).sha) == "Grace autotune"


def test_hooks_signing_and_odd_settings_of_the_user_play_no_part(file: Path, tmp_path: Path) -> None:
    root = file.parents[1]
    shutil.copytree(root, tmp_path / "plain")
    plain = commit(tmp_path / "plain" / file.parent.name / file.name)
    for setting in ("commit.gpgsign=true", "core.safecrlf=true", "core.sparseCheckout=true", "diff.noprefix=true"):
        git(root, "config", *setting.split("="))
    for hook in ("pre-commit", "commit-msg", "post-checkout", "post-commit", "reference-transaction"):
        script = root / ".git" / "hooks" / hook
        script.write_text(f"#!/bin/sh\ntouch '{root}/hook-ran'\nexit 1\n")
        script.chmod(0o755)
    assert commit(file) == plain
    assert not (root / "hook-ran").exists()


def dirty(file: Path) -> None:
    file.write_text(TEXT + "# mine\n")


def staged(file: Path) -> None:
    dirty(file)
    git(file.parent, "add", ".")
    file.write_text(TEXT)


def untracked(file: Path) -> None:
    git(file.parents[1], "rm", "-q", "--cached", "-r", ".")


def added_only(file: Path) -> None:
    git(file.parents[1], "mv", str(file), str(file.with_name("new.yaml")))
    file.with_name("new.yaml").rename(file)
    git(file.parent, "add", ".")
    git(file.parents[1], "commit", "-qm", "x")
    dirty(file)


def overlooked(file: Path) -> None:
    dirty(file)
    git(file.parent, "update-index", "--assume-unchanged", file.name)


@pytest.mark.parametrize("spoil", [dirty, staged, untracked, added_only, overlooked])
def test_a_deployment_that_isnt_committed_as_it_stands_is_refused(file: Path, spoil: Callable[[Path], None]) -> None:
    assert check_committable(file).file == "configs [prod]/deploy ment.yaml"
    spoil(file)
    with pytest.raises(UserError, match=r"deploy ment\.yaml: .*(isn't in HEAD|uncommitted change|overlook)"):
        check_committable(file)
    with pytest.raises(UserError):
        commit(file)
    assert git(file.parents[1], "branch", "--list", "autotune/*") == ""


def test_outside_git_and_before_the_first_commit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(TEXT)
    with pytest.raises(UserError, match="expected a file in a git repository"):
        check_committable(file)
    git(tmp_path, "init", "-q")
    with pytest.raises(UserError, match="expected a repository with a commit"):
        commit(file)
    assert not (tmp_path / ".git" / "worktrees").exists()


def test_inside_a_hook_of_git_nothing_is_done(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", "index.lock")
    with pytest.raises(UserError, match="GIT_INDEX_FILE is set"):
        check_committable(file)


@pytest.mark.parametrize(
    ("branch", "trailers", "complaint"),
    [
        ("main", TRAILERS, "below autotune/"),
        ("autotune/../x", TRAILERS, "can't be the name"),
        (BRANCH, {"Bad key": "x"}, "can't be a trailer"),
        (BRANCH, {"Key": "x\nOther: y"}, "can't be a trailer"),
    ],
)
def test_names_that_git_could_misread_are_refused(
    file: Path, branch: str, trailers: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        commit_change({file: BETTER}, branch, "x", trailers, 1)


def test_a_file_that_moved_on_since_the_run_began_is_not_overwritten(file: Path) -> None:
    base = check_committable(file)
    git(file.parents[1], "commit", "-qm", "other", "staged")
    file.write_text(TEXT + "other: 1\n")
    git(file.parents[1], "commit", "-qm", "theirs", "-a")
    with pytest.raises(UserError, match="changed it since the run began"):
        commit_change({file: BETTER}, BRANCH, "x", TRAILERS, 1, base=base)


def test_what_head_gained_since_it_was_judged_is_not_built_on(file: Path) -> None:
    root, base = file.parents[1], check_committable(file)
    git(root, "commit", "-qm", "nobody judged this", "staged")
    assert object_at(file, "main") == base.blob and object_at(file, "0" * 40) == ""
    result = commit_change({file: BETTER}, BRANCH, "x", TRAILERS, 1, base=base)
    assert git(root, "rev-parse", f"{result.sha}^") == base.head != git(root, "rev-parse", "main")
    assert commit_change({file: BETTER}, BRANCH, "x", TRAILERS, 1, base=base) == replace(result, created=False)
    with pytest.raises(UserError, match="isn't there any more"):
        commit_change({file: BETTER}, BRANCH, "x", TRAILERS, 1, base=replace(base, head="0" * 40))


def test_a_commit_or_a_file_that_isnt_there_is_named(file: Path) -> None:
    with pytest.raises(UserError, match="there is no commit 123"):
        read_trailers(file, "123")
    with pytest.raises(UserError, match="isn't in commit main"):
        file_at(file.with_name("other.yaml"), "main")


def test_what_head_already_holds_is_not_committed_again(file: Path) -> None:
    with pytest.raises(UserError, match="nothing to commit"):
        commit(file, TEXT)


@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_change_in_no_line_but_the_edited_one(file: Path, autocrlf: str, end: str) -> None:
    root = file.parents[1]
    file.write_bytes(TEXT.replace("\n", end).encode())
    git(root, "commit", "-qm", "ends", "--allow-empty", "-a")
    git(root, "config", "core.autocrlf", autocrlf)
    result = commit(file, BETTER.replace("\n", end))
    assert git(root, "diff", "--numstat", "main", result.sha).startswith("1\t1\t")
    assert file_at(file, result.sha).replace("\r\n", "\n") == BETTER


def test_a_symlink_leads_to_the_file_that_is_committed(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert commit(link).sha == commit(file).sha


def test_a_linked_worktree_and_a_submodule_serve_as_checkout(file: Path, tmp_path: Path) -> None:
    root = file.parents[1]
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "HEAD")
    linked = tmp_path / "linked" / file.parent.name / file.name
    result = commit(linked)
    assert commit(file) == CommitResult(result.sha, BRANCH, created=False)
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(root), "inner")
    git(outer, "commit", "-qm", "with a submodule")
    inner = outer / "inner" / file.parent.name / file.name
    assert commit(inner).sha == result.sha
    assert git(outer, "status", "--porcelain") == ""


def test_a_branch_that_is_checked_out_is_not_pulled_from_under_its_worktree(file: Path, tmp_path: Path) -> None:
    commit(file)
    git(file.parents[1], "worktree", "add", "-q", str(tmp_path / "linked"), BRANCH)
    with pytest.raises(UserError, match="is checked out"):
        commit(file, TEXT.replace("8", "32"))


def test_what_a_killed_commit_left_is_cleared_by_the_next(file: Path, tmp_path: Path) -> None:
    root = file.parents[1]
    before = snapshot(root)
    story = (
        "import os, sys, pathlib, git; sys.path.insert(0, sys.argv[2]); from tools.repo import commit as repo\n"
        "repo.Path.write_bytes = lambda *_: os.kill(os.getpid(), 9)\n"
        "repo.commit_change({pathlib.Path(sys.argv[1]): 'x: 1'}, 'autotune/a/b', 'm', {'K': 'v'}, 1)\n"
    )
    killed = subprocess.run([sys.executable, "-c", story, file, Path(__file__).parents[2]], check=False)
    assert killed.returncode == -9
    assert snapshot(root) != before
    assert commit(file).created
    assert snapshot(root) == before


def test_what_a_commit_would_change_is_known_before_it_is_made(file: Path) -> None:
    root = file.parents[1]
    before = snapshot(root)
    (name,), files = files_to_change({file: BETTER})
    assert files == [name] and (root / name).resolve() == file.resolve()
    assert files_to_change({file: file.read_text()})[1] == []
    assert snapshot(root) == before
    file.unlink()  # gone from the checkout, it would still be that file
    assert files_to_change({file: BETTER}) == ([name], [name])


def test_a_commit_is_found_by_any_name_and_tells_what_it_says(file: Path) -> None:
    made = commit(file)
    assert full_sha(file, made.branch) == full_sha(file.parent, made.sha[:10]) == made.sha
    assert head_of(file) == full_sha(file, "main") != made.sha
    assert root_of(file.parent).resolve() == file.parents[1].resolve()
    assert message_of(file, made.sha).strip() == git(file.parents[1], "log", "-1", "--format=%B", made.sha).strip()
    for name in ("nothing", "--all", "HEAD~9"):
        with pytest.raises(UserError, match="none called"):
            full_sha(file, name)


@pytest.fixture
def script(file: Path) -> Path:
    """A committed script that starts the server, beside the deployment."""
    place = file.parents[1] / "serve.sh"
    place.write_text("#!/bin/sh\nexec vllm serve m --max-num-seqs 8\n")
    place.chmod(0o755)
    git(file.parents[1], "add", "serve.sh")
    git(file.parents[1], "commit", "-qm", "script", "serve.sh")
    return place


def test_a_deployment_and_its_manifest_change_in_one_commit(file: Path, script: Path) -> None:
    root, texts = file.parents[1], {file: BETTER, script: script.read_text().replace("8", "64")}
    before, base = snapshot(root), check_committable(file, script)
    assert RepoState.from_json(base.to_json()) == base and list(base.others) == ["serve.sh"]
    assert files_to_change(texts)[1] == sorted([base.file, "serve.sh"])
    result = commit_change(texts, BRANCH, "x", TRAILERS, 1, base=base)
    assert git(root, "diff", "--summary", "main", result.sha) == ""  # neither new, nor gone, nor of another mode
    assert git(root, "diff", "--numstat", "main", result.sha).split("\n") == [f"1\t1\t{base.file}", "1\t1\tserve.sh"]
    assert commit_change(texts, BRANCH, "x", TRAILERS, 1, base=base) == replace(result, created=False)
    assert snapshot(root) == before


def test_a_manifest_that_moved_on_or_would_stay_as_it_is_is_refused(file: Path, script: Path) -> None:
    base, text = check_committable(file, script), script.read_text()
    with pytest.raises(UserError, match=r"serve\.sh: the new content is what HEAD already holds"):
        commit_change({file: BETTER, script: text}, BRANCH, "x", TRAILERS, 1, base=base)
    script.write_text(text + "# theirs\n")
    with pytest.raises(UserError, match=r"serve\.sh: expected it as committed"):
        check_committable(file, script)
    git(file.parents[1], "commit", "-qm", "theirs", "serve.sh")
    with pytest.raises(UserError, match=r"serve\.sh: a commit changed it since the run began"):
        commit_change({file: BETTER, script: text.replace("8", "64")}, BRANCH, "x", TRAILERS, 1, base=base)


def test_a_manifest_elsewhere_is_no_part_of_the_change(file: Path, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("a: 1\n")
    with pytest.raises(UserError, match=r"values\.yaml: expected a file below .*, found one outside"):
        check_committable(file, tmp_path / "values.yaml")


def test_a_record_of_before_there_were_manifests_is_still_read() -> None:
    old = {"root": "/r", "file": "d.yaml", "head": "a" * 40, "object": "b" * 40}
    assert RepoState.from_json(old).blobs == {"d.yaml": "b" * 40}
