"""Did the engine itself see every request and make every token that the client received?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "answers.counted"


def verify(evidence: Evidence) -> Verdict:
    """The engine's own counts of requests, generated tokens and prompt tokens, against the client's.

    A cache of answers or a proxy in front answers what the engine never saw; a server that cuts prompts short has fewer
    tokens of them to count; somebody else's load on the same server has more. Where all was answered the counts are
    equal; else the engine may also have worked for requests that the client gave up.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        for counter, unit, received in _counts(measured):
            counted = measured.counted(counter)
            if counted is None and not evidence.counts(counter):
                continue
            if counted is None:
                return error(RULE, f"trial {trial.id}: the server doesn't count its {unit}", trial)
            all_done = measured.completed == measured.offered
            if not counted >= received or (all_done and counted != received):
                told = f"the server counted {counted:.0f} {unit}, the client {received}"
                return failed(RULE, f"trial {trial.id}: {told}", trial)
            if counter == "requests" and counted > measured.offered:
                told = f"the server counted {counted:.0f} requests, {measured.offered} were offered"
                return failed(RULE, f"trial {trial.id}: {told}", trial)
    agreed, unknown = [], []
    for counter, unit, _ in _counts(evidence.measured[0][1]):
        if evidence.counts(counter):
            total = sum(measured.counted(counter) or 0.0 for _, measured in evidence.measured)
            agreed.append(f"{total:.0f} {unit}")
        else:
            unknown.append(unit)
    said = [f"client and engine agree on {' and '.join(agreed)}"] if agreed else []
    said += [f"this engine doesn't count its {' and '.join(unknown)}: the client alone does"] if unknown else []
    return passed(RULE, "; ".join(said), *evidence.trials)


def _counts(measured: Measurement) -> tuple[tuple[str, str, int], ...]:
    """(counter, what it counts, how many the client received)"""
    ok = [record for record in measured.records if record.outcome == "ok"]
    return (
        ("requests", "requests", len(ok)),
        ("generation_tokens", "generated tokens", sum(record.output_tokens or 0 for record in ok)),
        ("prompt_tokens", "prompt tokens", sum(record.prompt_tokens or 0 for record in ok)),
    )
