"""Ways to tell an honest confirmation otherwise, for the tests of the rules about measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.verifiers.conftest import with_measurement
from tools.canonical import digest
from tools.measure import Measurement, RequestRecord
from verifiers import Evidence, Verdict
from verifiers.rules.measurement import RULES

BY_ID = {rule.id: rule for rule in RULES}

Tell = Callable[[RequestRecord], RequestRecord]


def asked(rule: str, evidence: Evidence) -> Verdict:
    return BY_ID[rule].verify(evidence)


def measured(evidence: Evidence, index: int = 0) -> Measurement:
    measurement = evidence.trials[index].measurement
    assert measurement is not None
    return measurement


def altered(evidence: Evidence, index: int = 0, **changes: Any) -> Evidence:
    """The evidence with trial `index` measured otherwise, its summary following."""
    trials = list(evidence.trials)
    trials[index] = with_measurement(trials[index], evidence.deployment, **changes)
    return replace(evidence, trials=tuple(trials))


def retold(evidence: Evidence, index: int = 0, **changes: Any) -> Evidence:
    """The evidence with fields of trial `index` itself changed."""
    trials = list(evidence.trials)
    trials[index] = replace(trials[index], **changes)
    return replace(evidence, trials=tuple(trials))


def each_record(evidence: Evidence, tell: Tell, arm: str = "B", only: int | None = None) -> Evidence:
    """The evidence with every record of an arm (or of its request `only`) told otherwise."""
    for index, trial in enumerate(evidence.trials):
        if trial.arm == arm:
            told = tuple(tell(r) if only in (None, r.index) else r for r in measured(evidence, index).records)
            evidence = altered(evidence, index, records=told, window_s=max(r.end_s for r in told))
    return evidence


def counting(evidence: Evidence, index: int = 0, **counters: float) -> Evidence:
    """The evidence with counters of trial `index` standing elsewhere after the load."""
    return altered(evidence, index, counters_after={**(measured(evidence, index).counters_after or {}), **counters})


def single(evidence: Evidence, arm: str = "B") -> Evidence:
    """A trial of the search by itself, as its stage sees it."""
    trial = replace(evidence.arm(arm)[0], role="search" if arm == "B" else "baseline", block=None)
    return evidence.about([trial])


def without(evidence: Evidence, name: str) -> Evidence:
    """The evidence of a server that doesn't tell a counter."""
    for index in range(len(evidence.trials)):
        before, after = measured(evidence, index).counters_before or {}, measured(evidence, index).counters_after or {}
        rest = [{key: value for key, value in side.items() if key != name} for side in (before, after)]
        evidence = altered(evidence, index, counters_before=rest[0], counters_after=rest[1])
    return evidence


def refused(record: RequestRecord, error: str, status: int | None = 200) -> RequestRecord:
    silent = replace(record, outcome="failed", error=error, http_status=status, token_times_s=(), token_counts=())
    return replace(silent, token_ids=(), output_tokens=None, prompt_tokens=None, finish_reason=None)


def claiming(evidence: Evidence, claim: Callable[[dict[str, float]], dict[str, float]]) -> Evidence:
    return retold(evidence, recorded_summary=claim(dict(evidence.trials[0].recorded_summary)))


def dropping(evidence: Evidence, metric: str) -> Evidence:
    return retold(evidence, summary={k: v for k, v in evidence.trials[0].summary.items() if k != metric})


def shifted(record: RequestRecord, due_s: float) -> RequestRecord:
    later_s = due_s - record.scheduled_s
    times = tuple(at_s + later_s for at_s in record.token_times_s)
    moved = replace(record, scheduled_s=due_s, sent_s=record.sent_s + later_s, end_s=record.end_s + later_s)
    return replace(moved, token_times_s=times, first_chunk_s=times[0])


def serving(
    evidence: Evidence, index: int = 0, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> Evidence:
    now, then = measured(evidence, index).identity_before, measured(evidence, index).identity_after
    assert now is not None and then is not None
    return altered(
        evidence, index, identity_before=replace(now, **(before or {})), identity_after=replace(then, **(after or {}))
    )


def same_launch(evidence: Evidence, one: int, other: int) -> Evidence:
    first = measured(evidence, one).identity_before
    return altered(evidence, other, identity_before=first, identity_after=first)


def running(evidence: Evidence, **knobs: Any) -> Evidence:
    now = measured(evidence).identity_before
    assert now is not None
    config = {name: value for name, value in {**now.config, **knobs}.items() if value is not None}
    says = {"config": config, "config_digest": digest(config)}
    return serving(evidence, before=says, after=says)


def failing(evidence: Evidence, error: str, count: int, status: int | None = 200) -> Evidence:
    records = tuple(refused(r, error, status) if r.index < count else r for r in measured(evidence).records)
    return altered(evidence, records=records)


def failing_arm(evidence: Evidence, count: int, error: str, status: int, outcome: str = "failed") -> Evidence:
    return each_record(
        evidence, lambda r: replace(refused(r, error, status), outcome=outcome) if r.index < count else r
    )


def rejecting(evidence: Evidence, count: float) -> Evidence:
    for index, trial in enumerate(evidence.trials):
        if trial.arm == "B":
            evidence = counting(evidence, index, rejected=count)
    return evidence


def cut(record: RequestRecord, tokens: int) -> RequestRecord:
    short = replace(record, output_tokens=tokens, token_counts=record.token_counts[:tokens])
    return replace(short, token_times_s=record.token_times_s[:tokens], token_ids=record.token_ids[:tokens])


def natural(evidence: Evidence) -> Evidence:
    """Of a server that doesn't take `ignore_eos`."""
    for index in range(len(evidence.trials)):
        evidence = altered(evidence, index, extras=("return_token_ids",))
    search = with_measurement(evidence.search[0], evidence.deployment, extras=("return_token_ids",))
    return replace(evidence, search=(search,))


def spread(evidence: Evidence) -> Evidence:
    """Both answer with 6 tokens in the middle, one of them always, the other from 5 to 8."""
    evenly = each_record(evidence, lambda r: cut(r, 6), "A")
    return each_record(evenly, lambda r: cut(r, 8 if r.index % 2 else 7), "B")


def stopping(evidence: Evidence) -> Evidence:
    return each_record(evidence, lambda r: replace(r, finish_reason="stop"))


def bunched(record: RequestRecord, tokens: int) -> RequestRecord:
    """As many tokens in each chunk, which comes when the last of them is made."""
    counts = tuple(sum(record.token_counts[i : i + tokens]) for i in range(0, len(record.token_counts), tokens))
    times = tuple(record.token_times_s[min(i + tokens, len(record.token_times_s)) - 1] for i in range(0, 8, tokens))
    return replace(record, token_counts=counts, token_times_s=times, first_chunk_s=times[0])


def held_back(record: RequestRecord) -> RequestRecord:
    """The first token at once, the others together at the end."""
    first, *_, last = record.token_times_s
    return replace(record, token_times_s=(first, *(last - 0.0001 * n for n in range(6, -1, -1))))


def stalled(record: RequestRecord) -> RequestRecord:
    """A pause in the middle of an answer."""
    times = (*record.token_times_s[:4], *(at_s + 1.5 for at_s in record.token_times_s[4:]))
    return replace(record, token_times_s=times, end_s=times[-1] + 0.001)


def hurried(record: RequestRecord) -> RequestRecord:
    """Of ten requests four have no time to the first token, four others none between tokens; both medians look well."""
    first_s = record.sent_s + (0.001 if record.index < 4 else 0.006)
    gap_s = 0.0001 if record.index >= 6 else 0.010
    times = tuple(first_s + gap_s * n for n in range(8))
    return replace(record, token_times_s=times, first_chunk_s=first_s, end_s=times[-1] + 0.001)


def floors(evidence: Evidence, **floors_ms: float) -> Evidence:
    return replace(evidence, floors_ms={**evidence.floors_ms, **floors_ms})


def faster(evidence: Evidence, times: float) -> Evidence:
    """All the same work in a part of the time."""

    def quick(record: RequestRecord) -> RequestRecord:
        moments = {name: getattr(record, name) / times for name in ("scheduled_s", "sent_s", "end_s", "first_chunk_s")}
        return replace(record, **moments, token_times_s=tuple(at_s / times for at_s in record.token_times_s))

    return each_record(evidence, quick)


def lacking(record: RequestRecord, field: str) -> RequestRecord:
    """The record with nothing where its type promises something, as a forged one may have it."""
    nothing: dict[str, Any] = {field: None}
    return replace(record, **nothing)


def unfollowed(evidence: Evidence, tell: Tell) -> Evidence:
    """Records that no summary follows from."""
    records = (tell(measured(evidence).records[0]), *measured(evidence).records[1:])
    return retold(evidence, measurement=replace(measured(evidence), records=records))


def unwindowed(evidence: Evidence) -> Evidence:
    return retold(evidence, measurement=replace(measured(evidence), window_s=math.nan))


def set_by_hand(evidence: Evidence, **knobs: Any) -> Evidence:
    """Asked for with these knobs too; the server still runs with what it had."""
    config = evidence.trials[0].config.patched(knobs)
    return retold(altered(evidence, config_digest=config.digest), config=config)
