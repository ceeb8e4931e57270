"""Do requests that name no sampling parameter get the same distribution of answers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from tools.evals.results import EvalResults
from verifiers.evidence import Evidence
from verifiers.recordings import recordings
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.sampling"
ALPHA = 0.001
"Of each of the two tests."
SHUFFLES = 10_000
SEED = 20_240_229
"Fixed, so that a verdict can be derived again."

Numbers = npt.NDArray[np.float64]


def verify(evidence: Evidence) -> Verdict:
    """Two permutation tests that both arms' answers come from one distribution.

    By first tokens: the sum over tokens of (a - b)^2 / (a + b), where a answers of one arm and b of the other begin
    with the token. By likelihood: the difference of the mean log-probability of whole answers, which a temperature,
    top-k or top-p raises. Answers are drawn independently, so under the null any assignment of a prompt's answers to
    the arms is as likely; p counts those at least as extreme, and the one observed (Phipson and Smyth 2010). Statistics
    add up over prompts.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    launches = (*heard.baseline, *heard.candidate)
    if len({frozenset(said.defaults) for said in launches}) != 1 or not all(map(_whole, launches)):
        return error(
            RULE, "the launches were asked nothing without sampling parameters, or not the same", *heard.trials
        )
    draw = np.random.default_rng(SEED)
    by_word, by_nats = np.zeros(SHUFFLES + 1), np.zeros(SHUFFLES + 1)
    answers = 0
    for prompt in sorted(launches[0].defaults):
        words = list(chain.from_iterable(said.defaults[prompt] for said in launches))
        nats = list(chain.from_iterable(said.default_nats[prompt] for said in launches))
        before = sum(len(said.defaults[prompt]) for said in heard.baseline)
        is_before = _assignments(before, len(words), draw)
        by_word += _word_statistic([ids[0] for ids in words], is_before)
        by_nats += _mean_difference(np.array(nats), is_before)
        answers += len(words)
    p_words, p_nats = _p(by_word), _p(np.abs(by_nats))
    said = f"{answers} answers of both arms without sampling parameters: p = {p_words:.3g} by their first tokens, "
    said += f"{p_nats:.3g} by their likelihood"
    if min(p_words, p_nats) <= ALPHA:
        return failed(RULE, f"{said}: the defaults of sampling have changed", *heard.trials)
    return passed(RULE, f"{said}, so the defaults may well be the same", *heard.trials)


def _whole(said: EvalResults) -> bool:
    words: Mapping[str, Sequence[tuple[int, ...]]] = said.defaults
    lengths = {prompt: len(nats) for prompt, nats in said.default_nats.items()}
    return bool(words) and all(
        answers and all(answers) and lengths.get(prompt) == len(answers) for prompt, answers in words.items()
    )


def _assignments(before: int, answers: int, draw: np.random.Generator) -> Numbers:
    """[SHUFFLES + 1, answers]: 1 where an answer counts as the baseline's; the first row is as it was."""
    row = (np.arange(answers) < before).astype(np.float64)
    order = np.argsort(draw.random((SHUFFLES, answers)), axis=1)
    return np.vstack([row, row[order]])


def _word_statistic(first: Sequence[int], is_before: Numbers) -> Numbers:
    kinds = {token: place for place, token in enumerate(dict.fromkeys(first))}
    of_kind = np.zeros((len(first), len(kinds)))
    of_kind[np.arange(len(first)), [kinds[token] for token in first]] = 1.0
    totals = of_kind.sum(axis=0)
    share = is_before[0].mean()
    return np.asarray((((is_before @ of_kind) - share * totals) ** 2 / totals).sum(axis=1))


def _mean_difference(nats: Numbers, is_before: Numbers) -> Numbers:
    before = is_before.sum(axis=1)
    return np.asarray((is_before @ nats) / before - ((1 - is_before) @ nats) / (len(nats) - before))


def _p(statistics: Numbers) -> float:
    """Share of the assignments at least as extreme as the first, which is the one observed."""
    return float((statistics >= statistics[0] - 1e-9).sum() / len(statistics))
