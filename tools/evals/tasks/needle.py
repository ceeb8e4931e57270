"""Needle: a number told at the beginning of a long text and asked for at its end."""

from __future__ import annotations

import random

from tools.evals.item import Item, TaskSet, chat, completion

__all__ = ["CONTEXT_TOKENS", "needle"]

CONTEXT_TOKENS = 2048
"The context that is asked of where a deployment declares none."
_SHARES = (("eighth", 0.125), ("whole", 0.9))
"Of the declared context; what is left of the whole is for the template, the answer and longer tokens."

_ADJECTIVES = ("old", "small", "green", "quiet", "tall", "long", "cold", "bright", "heavy", "young")
_NOUNS = ("house", "river", "garden", "teacher", "road", "table", "bird", "window", "market", "train", "child", "tree")
_VERBS = ("saw", "found", "passed", "liked", "left", "reached", "forgot", "knew")


def needle(context_tokens: int) -> TaskSet:
    """Texts of an eighth (also as a chat) and nine tenths of a context of `context_tokens`.

    Words are so common that each is about one token to most tokenizers. Where it is more, the longest texts don't
    fit, the baseline refuses them, and the shorter ones remain.
    """
    items = [_completed(name, int(share * context_tokens)) for name, share in _SHARES]
    return TaskSet("needle", (*items, _chatted("chat-eighth", int(0.125 * context_tokens))))


def _completed(name: str, tokens: int) -> Item:
    code = str(random.Random(name).randint(1000, 9999))
    key = f"The secret number of the archive is {code}."
    text = f"{key} {_filler(name, tokens - 24)} {key.rpartition(' ')[0]}"
    return completion(name, text, "begins", code, max_tokens=6)


def _chatted(name: str, tokens: int) -> Item:
    code = str(random.Random(name).randint(1000, 9999))
    key = f"The secret number of the archive is {code}."
    text = f"{key} {_filler(name, tokens - 60)} What is the secret number of the archive?"
    return chat(name, text, "regex", code, max_tokens=12)


def _filler(name: str, tokens: int) -> str:
    """Sentences of `tokens` words and full stops together, and at least one."""
    draw = random.Random(f"filler {name}")
    sentences: list[str] = []
    left = tokens
    while left > 0 or not sentences:
        pick = draw.choice
        sentence = f"The {pick(_ADJECTIVES)} {pick(_NOUNS)} {pick(_VERBS)} the {pick(_ADJECTIVES)} {pick(_NOUNS)}."
        sentences.append(sentence)
        left -= len(sentence.split()) + 1
    return " ".join(sentences)
