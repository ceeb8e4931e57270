"""Are the answers as long as they were asked to be, or as long as the baseline's?"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median

from scipy.stats import chi2_contingency, ks_2samp

from verifiers.evidence import Evidence
from verifiers.sides import Measured, sides
from verifiers.statistics.paired import sign_p
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "outputs.lengths"
_LEAST_RATIO = 0.98
"Of a request's answer to the baseline's answer to the same request, in tokens, at the median."
_SURE = 0.001
"Level of the tests on the shape of the lengths and on how answers end."

Key = tuple[int | None, int]
"(block, request): where the same request was asked of both sides."


def verify(evidence: Evidence) -> Verdict:
    """Answers cut short look fast. With `ignore_eos` in force each has exactly the length asked for; without it the
    lengths are held against the baseline's, request by request where both sides answered the same ones: median ratio,
    sign test, Kolmogorov-Smirnov distance, and the mix of finish reasons."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        for record in measured.records:
            if (
                record.outcome != "ok"
                or record.output_tokens is None
                or not 0 <= record.index < len(trial.asked_tokens)
            ):
                continue
            got, asked = record.output_tokens, trial.asked_tokens[record.index]
            if got > asked or (got != asked and "ignore_eos" in measured.extras):
                return failed(
                    RULE, f"trial {trial.id}: request {record.index} asked for {asked} tokens, got {got}", trial
                )
    if all("ignore_eos" in measured.extras for _, measured in evidence.measured):
        count = sum(measured.completed for _, measured in evidence.measured)
        return passed(RULE, f"all {count} answers have exactly the length that was asked for", *evidence.trials)
    both = sides(evidence)
    if not both.candidate:
        return passed(
            RULE, "no answer is longer than asked; there is no other side to compare lengths with", *both.trials
        )
    if both.unpaired:
        return inconclusive(RULE, "there is no baseline to compare the answers' lengths with", *both.trials)
    return _compared(evidence, both.baseline, both.candidate)


def _compared(evidence: Evidence, baseline: tuple[Measured, ...], candidate: tuple[Measured, ...]) -> Verdict:
    trials = [trial for trial, _ in (*baseline, *candidate)]
    before, after = _lengths(baseline), _lengths(candidate)
    if not before or not after:
        return error(RULE, "no answer tells its length", *trials)
    shared = sorted(before.keys() & after.keys(), key=str)
    paired = bool(shared) and {trial.seed for trial, _ in baseline} == {trial.seed for trial, _ in candidate}
    if paired:
        ratio = median(after[key] / before[key] for key in shared)
    else:
        ratio = fmean(after.values()) / fmean(before.values())
    unit = f"{len(shared)} pairs" if paired else f"{len(before)} and {len(after)} unpaired answers"
    if ratio < _LEAST_RATIO:
        told = f"answers are {ratio:.2f} times as long as the baseline's ({unit}), at least {_LEAST_RATIO} is asked"
        return failed(RULE, told, *trials)
    if paired:
        shorter = sum(after[key] < before[key] for key in shared)
        longer = sum(after[key] > before[key] for key in shared)
        total = sum(after[key] for key in shared) / sum(before[key] for key in shared)
        if total < 1 and sign_p(shorter, longer) < _SURE:
            told = f"{shorter} of {len(shared)} answers are shorter than the baseline's and {longer} longer"
            return failed(RULE, f"{told}, {total:.3f} times as long together", *trials)
    distance = ks_2samp(list(before.values()), list(after.values()))
    if distance.pvalue < _SURE:
        told = f"Kolmogorov-Smirnov distance {distance.statistic:.2f}, p = {distance.pvalue:.1g}"
        return failed(RULE, f"the lengths of answers are spread otherwise than the baseline's: {told}", *trials)
    reasons = _reasons(baseline), _reasons(candidate)
    kinds = sorted(reasons[0].keys() | reasons[1].keys())
    if len(kinds) > 1:
        p = float(chi2_contingency([[side[kind] for kind in kinds] for side in reasons]).pvalue)
        if p < _SURE:
            mixes = (", ".join(f"{kind} {side[kind]}" for kind in kinds) for side in reasons)
            return failed(RULE, f"answers end for other reasons: {' against '.join(mixes)}, p = {p:.1g}", *trials)
    told = f"{ratio:.3f} times as long as the baseline's ({unit}), and end for the same reasons"
    return passed(RULE, f"answers are {told}", *trials)


def _lengths(side: tuple[Measured, ...]) -> dict[Key, float]:
    """Output tokens of each request, the mean over the launches that answered it: launches repeat what they were asked,
    so their answers aren't further samples."""
    found: dict[Key, list[int]] = defaultdict(list)
    for trial, measured in side:
        for record in measured.records:
            if record.outcome == "ok" and record.output_tokens:
                found[(trial.block, record.index)].append(record.output_tokens)
    return {key: fmean(lengths) for key, lengths in found.items()}


def _reasons(side: tuple[Measured, ...]) -> Counter[str]:
    return Counter(r.finish_reason or "none" for _, m in side for r in m.records if r.outcome == "ok")
