"""Are long prompts still read whole?"""

from __future__ import annotations

from collections.abc import Sequence

from tools.evals.results import Answer
from verifiers.evidence import Evidence
from verifiers.recordings import NEEDLE, recordings
from verifiers.verdict import Verdict, error, failed, passed

RULE = "quality.context"


def verify(evidence: Evidence) -> Verdict:
    """Prompts up to the declared context: answered, counted to the token as before, and the number in them found.

    What the baseline refuses or doesn't find isn't asked of the candidate; counts are exact, whatever the precision.
    """
    heard = recordings(evidence)
    if isinstance(heard, str):
        return error(RULE, heard, *evidence.confirmation)
    before, after = heard.task("A", NEEDLE), heard.task("B", NEEDLE)
    if not before or not after or len({frozenset(result.answers) for result in (*before, *after)}) != 1:
        return error(RULE, "the launches were asked no long prompts, or different ones", *heard.trials)
    longest, found = 0, 0
    for item in before[0].answers:
        baseline = [result.answers[item] for result in before]
        if any(answer.error for answer in baseline):
            continue
        counts = {answer.prompt_tokens for answer in baseline}
        tokens = baseline[0].prompt_tokens
        if len(counts) != 1 or tokens is None:
            return error(RULE, f"the baseline's launches count the prompt {item} differently or not", *heard.trials)
        longest = max(longest, tokens)
        is_found = all(answer.score == 1.0 for answer in baseline)
        found += is_found
        if problem := _problem(item, tokens, is_found, [result.answers[item] for result in after]):
            return failed(RULE, problem, *heard.trials)
    if not longest:
        return error(RULE, "the baseline answered none of the long prompts", *heard.trials)
    return passed(RULE, f"prompts of up to {longest} tokens are read whole, the number found in {found}", *heard.trials)


def _problem(item: str, tokens: int, is_found: bool, candidate: Sequence[Answer]) -> str:
    for answer in candidate:
        if answer.error:
            return f"the prompt {item} of {tokens} tokens came to nothing ({answer.error[:80]}): not so before"
        if answer.prompt_tokens != tokens:
            return f"of the prompt {item} {answer.prompt_tokens} tokens were read, {tokens} before"
    if is_found and all(answer.score < 1.0 for answer in candidate):
        return f"in the prompt {item} of {tokens} tokens the number is found no more"
    return ""
