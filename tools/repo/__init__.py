"""The one door to a user's git repository: one change, one commit, on a branch of our own, and no checkout touched."""

from tools.repo.commit import CommitResult, RepoState, check_committable, commit_change, files_to_change
from tools.repo.history import (
    Revision,
    commits_with_trailer,
    file_at,
    files_changed,
    full_sha,
    head_of,
    message_of,
    object_at,
    read_trailers,
    revisions,
    root_of,
)

__all__ = [
    "CommitResult",
    "RepoState",
    "Revision",
    "check_committable",
    "commit_change",
    "commits_with_trailer",
    "file_at",
    "files_changed",
    "files_to_change",
    "full_sha",
    "head_of",
    "message_of",
    "object_at",
    "read_trailers",
    "revisions",
    "root_of",
]
