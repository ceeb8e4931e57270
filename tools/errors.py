"""The one error that a person is meant to read."""

from __future__ import annotations

__all__ = ["UserError"]


class UserError(Exception):
    """Something the user can mend. The message says what was expected, what was found, where, and what to do.

    The CLI prints the message alone, without a traceback, and exits with `exit_code`.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
