"""Teacher forcing: the server scores the held-out passages, token by token, as somebody else's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.evals.asker import COMPLETIONS, Asker, NoAnswer, choice
from tools.evals.likelihood import scoring_fault
from tools.evals.prefix_forcing import probe_passages
from tools.evals.results import Passage

__all__ = ["TOP", "score_passages"]

TOP = 10
"Alternatives asked for at each place; servers of this API offer up to 20, some fewer."


async def score_passages(asker: Asker, passages: Mapping[str, str]) -> dict[str, Passage]:
    """Each text by its name, scored: a completion that echoes its prompt with log-probabilities.

    A server that echoes none is asked for the next token after some prefixes of each text.

    Raises:
        LaunchFailed: kind `unreachable`; the server doesn't score text in either way.
    """
    try:
        scored = await asker.all(_score(asker, text) for text in passages.values())
    except NoAnswer:
        return await probe_passages(asker, passages)
    return dict(zip(passages, scored, strict=True))


async def _score(asker: Asker, text: str) -> Passage:
    body = {
        "prompt": text,
        "max_tokens": 1,  # some servers take no 0
        "temperature": 0,
        "echo": True,
        "logprobs": TOP,
        "return_tokens_as_token_ids": True,  # two tokens may read alike
    }
    return _passage(choice(await asker.ask(COMPLETIONS, body)).get("logprobs"))


def _passage(told: Any) -> Passage:
    """The first token has no probability, the last is the server's own: both are left out."""
    try:
        tokens, logprobs, top = (told[name][1:-1] for name in ("tokens", "token_logprobs", "top_logprobs"))
        if not tokens or not len(tokens) == len(logprobs) == len(top):
            raise NoAnswer(f"expected as many log-probabilities as tokens, found {len(logprobs)} and {len(tokens)}")
        passage = Passage(
            tuple(str(token) for token in tokens),
            tuple(float(logprob) for logprob in logprobs),
            tuple({str(token): float(logprob) for token, logprob in place.items()} for place in top),
        )
        if fault := scoring_fault(passage):
            raise ValueError(fault)
        return passage
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoAnswer(f"expected logprobs of the echoed prompt, found {str(told)[:200]}") from error
