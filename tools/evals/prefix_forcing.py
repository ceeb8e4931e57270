"""Prefix forcing: how likely a server finds the words of the held-out passages, where it won't score a text as a whole.

Some servers (llama.cpp) tell probabilities only of what they generate. Asked for one token after each of some prefixes
of a text, they tell the same distributions, one a question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import exp, fsum, log

from tools.evals.asker import COMPLETIONS, Asker, NoAnswer, choice, unreachable
from tools.evals.likelihood import LEAST, scoring_fault
from tools.evals.results import Passage
from tools.evals.told_tokens import alternatives

__all__ = ["PLACES", "TOP", "probe_passages", "probed_at"]

TOP = 10
"Alternatives asked for at each place."
PLACES = 4
"Words asked about in each passage, evenly spread over it."
_WORD = re.compile(r"(?<=\w)\s+\w+")


async def probe_passages(asker: Asker, passages: Mapping[str, str]) -> dict[str, Passage]:
    """Each text by its name, probed at some of its words.

    Raises:
        LaunchFailed: kind `unreachable`; the server doesn't tell log-probabilities.
    """
    try:
        probed = await asker.all(_probe(asker, text) for text in passages.values())
    except NoAnswer as fault:
        raise unreachable(f"a passage could not be scored: {fault}") from fault
    return dict(zip(passages, probed, strict=True))


def probed_at(text: str, places: int = PLACES) -> list[tuple[str, str]]:
    """(what stands before, the word after it, with its blank), evenly spread over the text's second words and later."""
    words = list(_WORD.finditer(text))
    chosen = [words[len(words) * place // places] for place in range(min(places, len(words)))]
    return [(text[: word.start()], word.group()) for word in chosen]


async def _probe(asker: Asker, text: str) -> Passage:
    said = await asker.all(_ask(asker, before) for before, _ in probed_at(text))
    words = [word for _, word in probed_at(text)]
    passage = Passage(
        tuple(words),
        tuple(_likelihood(word, told) for word, told in zip(words, said, strict=True)),
        tuple(said),
        by_prefix=True,
    )
    if fault := scoring_fault(passage):
        raise NoAnswer(fault)
    return passage


async def _ask(asker: Asker, before: str) -> dict[str, float]:
    body = {"prompt": before, "max_tokens": 1, "temperature": 0, "logprobs": TOP}
    return alternatives(choice(await asker.ask(COMPLETIONS, body)))


def _likelihood(word: str, told: Mapping[str, float]) -> float:
    """Of the longest told token that `word` begins with; where there is none, of all that isn't told."""
    fitting = [token for token in told if token and word.startswith(token)]
    if fitting:
        return told[max(fitting, key=len)]
    return log(max(1 - fsum(map(exp, told.values())), LEAST))
