"""Is every answer that counts a whole answer, and did nothing else come with status 200?"""

from __future__ import annotations

from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "answers.valid"
_BROKEN = frozenset({"dropped_stream", "transport", "aborted"})
"A connection that broke, or an answer that the server gave up and said so: lost requests, not false answers."


def verify(evidence: Evidence) -> Verdict:
    """Error bodies, HTML pages and empty choices sent as 200 are fast and say nothing.

    The client refuses them and names why; an answer that it took has tokens, their times, usage and a finish reason.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    answers = 0
    for trial, measured in evidence.measured:
        if not measured.completed:
            false = _false(measured)
            told = f"trial {trial.id} has no answer" + (f", but {false}" if false else "")
            return failed(RULE, told, trial) if false else error(RULE, told, trial)
        problem = _false(measured) or _hollow(measured)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
        answers += measured.completed
    return passed(RULE, f"all {answers} answers are whole: tokens, usage and a finish reason", *evidence.trials)


def _false(measured: Measurement) -> str:
    """What came with status 200 and was no answer."""
    false = [
        record
        for record in measured.records
        if record.outcome == "failed" and record.http_status == 200 and _slug(record) not in _BROKEN
    ]
    if not false:
        return ""
    return f"{len(false)} of {measured.offered} requests got status 200 without a valid answer: {false[0].error[:120]}"


def _slug(record: RequestRecord) -> str:
    return record.error.partition(":")[0]


def _hollow(measured: Measurement) -> str:
    """An answer that counts although something of it is missing."""
    for record in measured.records:
        if record.outcome != "ok":
            continue
        if record.error:
            return f"request {record.index} counts as answered, and says {record.error[:120]}"
        lacks = [
            what
            for what, there in (
                ("status 200", record.http_status == 200),
                ("output tokens", record.output_tokens),
                ("prompt tokens", record.prompt_tokens),
                ("a time for any token", record.token_times_s),
                ("a finish reason", record.finish_reason),
            )
            if not there
        ]
        if lacks:
            return f"request {record.index} counts as answered without {', '.join(lacks)}"
        streamed = sum(record.token_counts)
        if record.token_counts and streamed != record.output_tokens:
            return f"request {record.index} streamed {streamed} tokens, its usage says {record.output_tokens}"
        if record.token_ids and len(record.token_ids) != record.output_tokens:
            ids = len(record.token_ids)
            return f"request {record.index} has {ids} token ids, its usage says {record.output_tokens}"
    return ""
