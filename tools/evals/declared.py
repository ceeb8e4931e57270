"""OwnEval: a user's own eval, as the deployment names it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.evals.json_schema import checked_schema

__all__ = ["LmEval", "Loss", "OwnEval", "Scored"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Loss(_Strict):
    """How much a lossy knob may lose, against the baseline."""

    max_kl: float = Field(gt=0, le=10)
    "Mean divergence of the next token's distribution, in nats a token."
    max_perplexity_increase: float = Field(gt=0, le=10)
    "Relative: 0.02 is 2 %."
    max_task_drop: float = Field(gt=0, le=1)
    "Of the mean score over all bundled tasks, in points of 0 to 1."


def _beside(path: str) -> str:
    """A path beside or below the deployment's file; symbolic links are the user's own affair."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.name:
        raise ValueError("expected a path beside or below the deployment's file")
    return path


class _Own(_Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    max_drop: float = Field(default=0.0, ge=0, le=1)
    "Fall of the mean score that is accepted, in points of 0 to 1; what chance alone does comes on top."


class Scored(_Own):
    """Items in a JSONL file beside the deployment, each with `prompt` or `messages`, and what the scorer needs."""

    scorer: Literal["exact", "regex", "json_schema", "python"]
    data: str
    "JSONL: `expected` for exact, `pattern` for regex, `schema` for json_schema unless it stands here."
    max_tokens: int = Field(default=64, ge=1, le=8192)
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    entry: str | None = None
    "`FILE.py:FUNCTION` beside the deployment, called as FUNCTION(item, answer) -> 0..1."
    time_limit_s: float = Field(default=60.0, gt=0, le=3600)
    "For all items together."
    memory_limit_bytes: int = Field(default=1 << 30, ge=64 << 20)

    _data = field_validator("data")(_beside)

    @field_validator("json_schema")
    @classmethod
    def _valid_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            checked_schema(schema)
        return schema

    @model_validator(mode="after")
    def _whole(self) -> Scored:
        if (self.scorer == "python") != (self.entry is not None):
            raise ValueError("entry: belongs to scorer: python, and to no other")
        if self.entry is not None:
            file, _, function = self.entry.partition(":")
            if not file.endswith(".py") or not function.isidentifier():
                raise ValueError("entry: expected FILE.py:FUNCTION")
            _beside(file)
        if self.json_schema is not None and self.scorer != "json_schema":
            raise ValueError("schema: belongs to scorer: json_schema")
        return self


class LmEval(_Own):
    """Tasks of an lm-evaluation-harness that lives in an environment of its own."""

    scorer: Literal["lm_eval"]
    command: tuple[str, ...] = Field(min_length=1)
    "How it is called: the path of its `lm_eval`, with arguments that come first."
    tasks: tuple[str, ...] = Field(min_length=1)
    metric: str = "acc"
    "Of each sample: acc, acc_norm, exact_match and the like."
    filter: str = "none"
    "Which of a task's filters; tasks with several name them: strict-match, flexible-extract."
    limit: int = Field(default=50, ge=1)
    "Items of each task."
    include: str | None = None
    "Folder beside the deployment with tasks of your own."
    tokenizer: str | None = None
    "Name or folder; needed by tasks that compare log-probabilities."
    time_limit_s: float = Field(default=1800.0, gt=0)

    @field_validator("include")
    @classmethod
    def _include(cls, path: str | None) -> str | None:
        return None if path is None else _beside(path)

    @field_validator("tasks", "command")
    @classmethod
    def _plain(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if not all(word and "\n" not in word and "\0" not in word for word in words):
            raise ValueError("expected words of one line")
        return words

    @field_validator("tasks")
    @classmethod
    def _names(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        for task in tasks:
            if task.startswith("-") or "," in task:
                raise ValueError(f"expected names of tasks, found {task!r}")
        return tasks


OwnEval = Annotated[Scored | LmEval, Field(discriminator="scorer")]
