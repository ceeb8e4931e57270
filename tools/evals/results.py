"""EvalResults: all that one server said to the evaluation suite, raw. Comparing is the verifiers' business."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from tools.evals.agreement import GreedyOutputs

__all__ = ["Answer", "Conduct", "EvalResults", "Passage", "TaskResult"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One held-out text, teacher-forced: the server scored tokens that it didn't choose."""

    tokens: tuple[str, ...]
    "As the server cut the text; the first has no probability of its own and is left out."
    logprobs: tuple[float, ...]
    "Natural logarithm of each token's probability given all before it."
    top: tuple[Mapping[str, float], ...]
    "At each place the likeliest tokens with their log-probabilities."
    by_prefix: bool = False
    "Probed word by word: `tokens` are words of the text, and aren't names of alternatives."


@dataclass(frozen=True, slots=True)
class Answer:
    """One item of a task set, answered and scored."""

    score: float
    "0 to 1, by an exact scorer."
    text: str
    "What the server said, cut to 2,000 characters; a scorer saw it whole."
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    error: str = ""
    "Why there is no answer; then the score is 0."
    unscored: str = ""
    "Why the user's scorer gave this answer no score: its own fault, so a score of 0 that says nothing."


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task set: answers by the items' ids."""

    answers: Mapping[str, Answer]

    @property
    def score(self) -> float:
        """Mean over the items, 0 to 1."""
        return fmean(answer.score for answer in self.answers.values())


@dataclass(frozen=True, slots=True)
class Conduct:
    """The same requests, one at a time, as the load generator sends them and under another client's identity."""

    ours_s: tuple[float, ...]
    "Seconds from send to the last token, request by request."
    disguised_s: tuple[float, ...]


@dataclass(frozen=True)
class EvalResults:
    """What is empty wasn't asked."""

    suite: str
    "Digest of all that was asked: only results of one suite can be compared."
    greedy: GreedyOutputs
    passages: Mapping[str, Passage] = field(default_factory=dict)
    tasks: Mapping[str, TaskResult] = field(default_factory=dict)
    "The bundled sets: arithmetic, extraction, instructions, needle, tools."
    own: Mapping[str, TaskResult] = field(default_factory=dict)
    "The user's own evals, by name."
    defaults: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    "Digest of the prompt -> token ids of several answers to it for which no sampling parameter was sent."
    default_nats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    "For each of these answers the sum of its tokens' log-probabilities, as the model itself has them."
    conduct: Conduct | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "greedy": self.greedy.to_json(),
            "passages": {name: asdict(passage) for name, passage in self.passages.items()},
            "tasks": {name: asdict(result) for name, result in self.tasks.items()},
            "own": {name: asdict(result) for name, result in self.own.items()},
            "defaults": {prompt: [list(ids) for ids in answers] for prompt, answers in self.defaults.items()},
            "default_nats": {prompt: list(nats) for prompt, nats in self.default_nats.items()},
            "conduct": asdict(self.conduct) if self.conduct else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvalResults:
        return cls(
            suite=data["suite"],
            greedy=GreedyOutputs.from_json(data["greedy"]),
            passages={name: _passage(raw) for name, raw in data["passages"].items()},
            tasks={name: _result(raw) for name, raw in data["tasks"].items()},
            own={name: _result(raw) for name, raw in data["own"].items()},
            defaults={prompt: tuple(tuple(ids) for ids in answers) for prompt, answers in data["defaults"].items()},
            default_nats={prompt: tuple(nats) for prompt, nats in data["default_nats"].items()},
            conduct=_conduct(data["conduct"]) if data["conduct"] else None,
        )


def _passage(raw: Mapping[str, Any]) -> Passage:
    return Passage(tuple(raw["tokens"]), tuple(raw["logprobs"]), tuple(raw["top"]), raw.get("by_prefix", False))


def _result(raw: Mapping[str, Any]) -> TaskResult:
    return TaskResult({item: Answer(**answer) for item, answer in raw["answers"].items()})


def _conduct(raw: Mapping[str, Any]) -> Conduct:
    return Conduct(tuple(raw["ours_s"]), tuple(raw["disguised_s"]))
