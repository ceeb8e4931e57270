"""What a model that never was says to the evaluation suite: the same every time but for harmless near-ties."""

from __future__ import annotations

import math
from random import Random

from tools.canonical import digest
from tools.evals.agreement import GreedyOutputs
from tools.evals.results import Answer, Conduct, EvalResults, Passage, TaskResult

__all__ = ["PROMPTS", "said"]

PROMPTS = 24
GREEDY_TOKENS = 8
DEFAULT_ANSWERS = 5
"Answers to one prompt for which no sampling parameter was sent."
_PASSAGES, _PASSAGE_TOKENS, _TOP = 3, 80, 5
_RARE = 0.1
"Share of a text's tokens that aren't among the likely ones."
_ITEMS = {"arithmetic": 16, "extraction": 10, "instructions": 12, "needle": 5, "tools": 8, "schemas": 6}
_ENFORCED = frozenset({"needle", "tools", "schemas"})
"What no near-tie decides: forms that the server keeps, and what it reads."
_VOCABULARY = 4096
_SHARES = (0.53, 0.27, 0.13, 0.07)
"Probabilities of what may come next where nothing is asked for."


def said(launch: str, *, flips: float = 0.02, jitter: float = 0.01, conduct_s: float = 0.08) -> EvalResults:
    """Results of one launch.

    Args:
        launch: names it; its noise follows from that.
        flips: share of the greedy answers in which a near-tie falls the other way, as batches are composed differently.
        jitter: spread of a log-probability between launches, in nats, for the same reason.
        conduct_s: seconds of one request.
    """
    random = Random(launch)
    sampled = {f"{index:064x}": _defaults(index, random) for index in range(3)}
    return EvalResults(
        suite=digest("gauntlet suite"),
        greedy=GreedyOutputs({f"{index:064x}": _greedy(index, random, flips) for index in range(PROMPTS)}),
        passages={f"passage-{index}": _passage(index, random, jitter) for index in range(_PASSAGES)},
        tasks={name: _task(name, count, random) for name, count in _ITEMS.items()},
        own={"tickets": _task("tickets", 10, random)},
        defaults={prompt: tuple(ids for ids, _ in several) for prompt, several in sampled.items()},
        default_nats={prompt: tuple(nats for _, nats in several) for prompt, several in sampled.items()},
        conduct=Conduct(_times(random, conduct_s), _times(random, conduct_s)),
    )


def _greedy(index: int, random: Random, flips: float) -> tuple[int, ...]:
    model = Random(f"greedy/{index}")
    ids = [model.randrange(2, _VOCABULARY) for _ in range(GREEDY_TOKENS)]
    if random.random() < flips:
        place = random.randrange(GREEDY_TOKENS // 2, GREEDY_TOKENS)
        ids[place:] = [random.randrange(2, _VOCABULARY) for _ in ids[place:]]
    return tuple(ids)


def _passage(index: int, random: Random, jitter: float) -> Passage:
    model = Random(f"passage/{index}")
    tokens, logprobs, top = [], [], []
    for place in range(_PASSAGE_TOKENS):
        likely = sorted((model.uniform(0.02, 1.0) ** 3 for _ in range(_TOP)), reverse=True)
        total = sum(likely) / model.uniform(0.6, 0.95)
        noisy = [math.log(share / total) + random.gauss(0.0, jitter) for share in likely]
        chosen = model.choices(range(_TOP), weights=likely)[0]
        names = [f" t{index}-{place}-{rank}" for rank in range(_TOP)]
        rare = model.random() < _RARE
        tokens.append(f" r{index}-{place}" if rare else names[chosen])
        logprobs.append(math.log(model.uniform(1e-4, 1e-3)) + random.gauss(0.0, jitter) if rare else noisy[chosen])
        top.append(dict(zip(names, noisy, strict=True)))
    return Passage(tuple(tokens), tuple(logprobs), tuple(top))


def _task(name: str, count: int, random: Random) -> TaskResult:
    model = Random(f"task/{name}")
    answers = {}
    for index in range(count):
        right = model.random() < 0.8
        if name not in _ENFORCED and random.random() < 0.01:  # a near-tie
            right = not right
        answers[f"{name}-{index:02d}"] = Answer(
            score=1.0 if right else 0.0,
            text=f"answer {index}" if right else f"something else than {index}",
            finish_reason="tool_calls" if name == "tools" and right else "stop",
            prompt_tokens=(2000 + 1500 * index) if name == "needle" else 40 + index,
        )
    return TaskResult(answers)


def _defaults(index: int, random: Random) -> list[tuple[tuple[int, ...], float]]:
    """Sampled at the model's own default temperature: each token comes from a handful. With log-probabilities."""
    model = Random(f"default/{index}")
    handful = [model.randrange(2, _VOCABULARY) for _ in _SHARES]
    found = []
    for _ in range(DEFAULT_ANSWERS):
        ranks = random.choices(range(len(_SHARES)), weights=_SHARES, k=4)
        found.append((tuple(handful[rank] for rank in ranks), sum(math.log(_SHARES[rank]) for rank in ranks)))
    return found


def _times(random: Random, typical_s: float) -> tuple[float, ...]:
    return tuple(typical_s * math.exp(random.gauss(0.0, 0.05)) for _ in range(8))
