"""The two ways in which the engine says no: at start-up, and to a request."""

from __future__ import annotations

from typing import Literal

__all__ = ["RequestRefused", "StartKind", "StartRefused"]

StartKind = Literal["bad_config", "oom", "port_taken", "model_missing", "crash"]


class StartRefused(Exception):
    """The engine can't serve what it was asked to. `kind` classifies it for whoever launched the process."""

    def __init__(self, kind: StartKind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


class RequestRefused(Exception):
    """A request that can't be served. `status` is the HTTP status it deserves, `code` a word for programs."""

    def __init__(
        self, sentence: str, *, status: int = 400, code: str = "invalid_request", param: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        self.code = code
        self.param = param
