"""Evals: what a played server says to the evaluation suite: what the model says, or else where a knob has altered it.

No answers are recorded with a surface: a suite asks other things from release to release. They are made up instead, the
same for every launch where the model decides, drawn anew for each where chance or a clock does.
"""

from __future__ import annotations

import math
from random import Random

from tools.canonical import digest
from tools.errors import UserError
from tools.evals import conduct, defaults, divergence
from tools.evals.agreement import GreedyOutputs
from tools.evals.item import Item
from tools.evals.passages import PASSAGES
from tools.evals.prompts import GREEDY_PROMPTS
from tools.evals.results import Answer, Conduct, EvalResults, Passage, TaskResult
from tools.evals.suite import Suite

__all__ = ["said"]

_VOCABULARY = 32_000
_SOLVED = 0.6
"Share of the tasks that the played model can do: not all, as a small one."
_FAVOURITES = (11, 11, 11, 29, 29, 47)
"Tokens that it samples from, as often as they stand here."


def said(suite: Suite, random: Random, *, altered: bool) -> EvalResults:
    """The answers of a launch; with `altered`, of a model whose outputs a knob has changed. `random` is the launch's.

    Raises:
        UserError: the deployment has evals of its own, which nobody recorded.
    """
    if suite.own or suite.harnesses:
        raise UserError("a replay can't answer a deployment's own evals; leave `evals:` out of a scenario")
    flavour = "altered" if altered else "plain"
    sampled = {
        digest([path, dict(body)]): tuple(_sampled(random) for _ in range(defaults.SAMPLES))
        for path, body in defaults.DEFAULT_REQUESTS
    }
    ours = tuple(0.1 + 0.01 * random.random() for _ in range(conduct.PAIRS))
    return EvalResults(
        suite=suite.digest,
        greedy=GreedyOutputs({digest(prompt): _tokens(flavour, prompt) for prompt in GREEDY_PROMPTS}),
        passages={name: _passage(text, altered) for name, text in PASSAGES.items()},
        tasks={task.name: TaskResult({item.id: _answer(item) for item in task.items}) for task in suite.tasks},
        defaults=sampled,
        default_nats={request: tuple(map(_nats, answers)) for request, answers in sampled.items()},
        conduct=Conduct(ours, tuple(seconds * (1 + 0.04 * random.random()) for seconds in ours)),
    )


def _number(*key: str) -> int:
    return int(digest(list(key))[:12], 16)


def _tokens(flavour: str, prompt: str) -> tuple[int, ...]:
    return tuple(_number(flavour, prompt, str(place)) % _VOCABULARY for place in range(divergence.MAX_TOKENS))


def _passage(text: str, altered: bool) -> Passage:
    """Words as tokens; each with a probability of its own, which an altered model misses by a third."""
    words = text.split()
    likely = [0.2 + 0.6 * (_number("likely", word) % 1000) / 1000 for word in words]
    if altered:
        likely = [value / 1.5 for value in likely]
    top = tuple(
        {word: math.log(value), f"not {word}": math.log((1 - value) / 2)}
        for word, value in zip(words, likely, strict=True)
    )
    return Passage(tuple(words), tuple(math.log(value) for value in likely), top)


def _answer(item: Item) -> Answer:
    solved = _number("solved", item.id) % 1000 < 1000 * _SOLVED
    return Answer(float(solved), "played back", "stop", prompt_tokens=20 + _number("prompt", item.id) % 200)


def _sampled(random: Random) -> tuple[int, ...]:
    return tuple(random.choice(_FAVOURITES) for _ in range(defaults.MAX_TOKENS))


def _nats(tokens: tuple[int, ...]) -> float:
    """The log-probability of a sampled answer."""
    return sum(math.log(_FAVOURITES.count(token) / len(_FAVOURITES)) for token in tokens)
