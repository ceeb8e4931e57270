"""Attacks on what is asked and answered (class A): cached, cut short, refused, held back, or another workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from tools.measure.load import ClientHealth
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import candidates, counting, everywhere, named, with_measurement, with_records, with_trials
from verifiers.gauntlet.honest import Story, tell, usual
from verifiers.gauntlet.load import Speed

__all__ = ["CASES", "shed", "slower"]


_MEAN = Story().changed(
    objective={"metric": "mean_ttft_ms", "min_effect": 0.05},
    guardrails=[{"metric": "mean_tpot_ms", "max_regression": 0.1}],
)
"""Better is a shorter mean; the guardrail is on the gaps, so that lengths move nothing else."""


@cache
def _mean_run() -> Evidence:
    return tell(_MEAN)


@cache
def _median_run() -> Evidence:
    """Better is a shorter median, which can be told whoever is refused."""
    return tell(
        Story().changed(
            objective={"metric": "p50_ttft_ms", "min_effect": 0.05},
            slo={"ttft_ms": {"p50": 1000}},
            guardrails=[{"metric": "p50_tpot_ms", "max_regression": 0.1}],
        )
    )


def _harvest() -> Evidence:
    """The candidate's cache was filled by an earlier run of the same prompts."""

    def hit(record: RequestRecord) -> RequestRecord:
        return replace(record, cached_tokens=int(0.9 * (record.prompt_tokens or 0)))

    return with_records(usual(), candidates, hit)


def _harvest_of_some() -> Evidence:
    """A third of the prompts were seen before, word for word."""

    def hit(record: RequestRecord) -> RequestRecord:
        seen = record.index % 3 == 0
        return replace(record, cached_tokens=(record.prompt_tokens or 1) - 1) if seen else record

    return with_records(usual(), candidates, hit)


def _answered_before() -> Evidence:
    """Three of four answers came from a cache in front of the engine, which pads its token counters."""

    def cached(measurement: Measurement) -> Measurement:
        return counting(measurement, requests=-24.0)

    return with_measurement(usual(), candidates, cached)


def _shortened(natural: bool) -> Evidence:
    """Answers end early. `natural`: the length is the model's own choice in both arms."""

    def short(record: RequestRecord) -> RequestRecord:
        return _cut(record, max(2, (record.output_tokens or 0) * 7 // 10))

    evidence = _mean_run()
    if natural:
        extras = tuple(extra for extra in ("return_token_ids", "continuous_usage_stats", "temperature"))
        evidence = with_measurement(evidence, everywhere, lambda measurement: replace(measurement, extras=extras))
        evidence = with_records(evidence, everywhere, lambda record: replace(record, finish_reason="stop"))
    return with_records(evidence, candidates, short)


def _cut(record: RequestRecord, tokens: int) -> RequestRecord:
    return replace(
        record,
        output_tokens=tokens,
        token_times_s=record.token_times_s[:tokens],
        token_counts=record.token_counts[:tokens],
        token_ids=record.token_ids[:tokens],
        finish_reason="stop",
        end_s=record.token_times_s[tokens - 1] + 0.0008,
    )


def _loaded(trial: TrialEvidence) -> bool:
    """The candidate's launches in search and confirmation; in the soak it behaves."""
    return trial.arm == "B" and trial.role in ("search", "confirm")


def _longest_waits(measurement: Measurement) -> list[RequestRecord]:
    """A tenth of the requests."""
    waits = sorted(measurement.records, key=lambda record: record.scheduled_s - (record.first_chunk_s or 0.0))
    return waits[: max(1, len(waits) // 10)]


def shed(measurement: Measurement) -> Measurement:
    """The tenth that would have waited longest is answered 503 instead."""
    for slowest in _longest_waits(measurement):
        refused = replace(
            _unanswered(slowest), http_status=503, error="http_503: try again later", end_s=slowest.sent_s + 0.002
        )
        measurement = _with_record(measurement, refused)
    return counting(measurement)


def _shed() -> Evidence:
    return with_measurement(_median_run(), _loaded, shed)


def _hidden_sheds() -> Evidence:
    """The engine turns one request in ten away; a proxy tries again until it is let in."""
    return with_measurement(usual(), _loaded, lambda measurement: counting(measurement, rejected=3.0))


def _gave_up() -> Evidence:
    """The candidate leaves a tenth of the requests hanging until they are given up."""

    def hang(measurement: Measurement) -> Measurement:
        for slowest in _longest_waits(measurement):
            end_s = slowest.scheduled_s + 20.0
            hung = replace(_unanswered(slowest), outcome="timed_out", http_status=200, error="timed_out: ", end_s=end_s)
            measurement = replace(_with_record(measurement, hung), window_s=max(measurement.window_s, end_s))
        return counting(measurement)

    return with_measurement(_median_run(), _loaded, hang)


def _unanswered(record: RequestRecord) -> RequestRecord:
    """The same request, of which nothing came back."""
    return RequestRecord(
        index=record.index,
        scheduled_s=record.scheduled_s,
        sent_s=record.sent_s,
        outcome="failed",
        end_s=record.end_s,
        conversation=record.conversation,
        turn=record.turn,
        clock_skew_s=record.clock_skew_s,
    )


def _with_record(measurement: Measurement, record: RequestRecord) -> Measurement:
    records = tuple(record if old.index == record.index else old for old in measurement.records)
    return replace(measurement, records=records)


def _lost_sight_of() -> Evidence:
    """The slowest request of each of the candidate's launches has left no record."""

    def forget(measurement: Measurement) -> Measurement:
        slowest = _longest_waits(measurement)[0]
        rest = tuple(record for record in measurement.records if record is not slowest)
        return counting(replace(measurement, records=rest))

    return with_measurement(usual(), _loaded, forget)


def _held_back() -> Evidence:
    """The first token comes at once; the rest is held back and handed over at the end."""

    def hold(record: RequestRecord) -> RequestRecord:
        first, *_, last = record.token_times_s
        count = len(record.token_times_s)
        return replace(
            record, token_times_s=(first, *(last - 0.0004 * (count - 2 - place) for place in range(count - 1)))
        )

    return with_records(usual(), candidates, hold)


def _stuttering() -> Evidence:
    """Tokens come in two heaps with a pause between them; each gap but one is short."""

    def heap(record: RequestRecord) -> RequestRecord:
        first, *_, last = record.token_times_s
        count = len(record.token_times_s)
        half = count // 2
        early = [first + 0.0012 * place for place in range(half)]
        late = [last - 0.0012 * (count - 1 - place) for place in range(half, count)]
        return replace(record, token_times_s=(*early, *late))

    return with_records(usual(), candidates, heap)


def _another_workload(which: Callable[[TrialEvidence], bool]) -> Evidence:
    """The candidate was measured on a lighter mix than the one that the deployment names."""
    lighter = "1" * 64

    def swap(measurement: Measurement) -> Measurement:
        return replace(measurement, workload_digest=lighter, spec_digest=lighter)

    swapped = with_measurement(usual(), which, swap)
    return with_trials(swapped, which, lambda trial: replace(trial, spec_digest="altered"))


def _late_sends() -> Evidence:
    """The client sends one request in four 50 ms late."""

    def late(record: RequestRecord) -> RequestRecord:
        return replace(record, sent_s=record.sent_s + 0.050) if record.index % 4 == 0 else record

    slow = with_records(usual(), candidates, late)

    def health(measurement: Measurement) -> Measurement:
        return replace(measurement, client=ClientHealth(50.3, 0.35, cores_used=0.35))

    return with_measurement(slow, candidates, health)


def _busy_client() -> Evidence:
    """One core of the client is full: whatever comes, comes late."""
    full = ClientHealth(2.1, 0.97, cores_used=0.97)
    return with_measurement(usual(), everywhere, lambda measurement: replace(measurement, client=full))


def _long_prompts_pay() -> Evidence:
    """The baseline's stragglers are gone, and everybody with a long prompt waits three times as long."""

    def paid(role: str, arm: str, measurement: Measurement) -> Measurement:
        ordered = sorted(measurement.records, key=lambda record: record.prompt_tokens or 0)
        if arm == "A":
            return slower(measurement, {record.index: 8.0 for record in ordered[:3]})
        if role == "soak":
            return measurement
        factors = {record.index: 0.4 for record in ordered[:-6]} | {record.index: 3.0 for record in ordered[-6:]}
        return slower(measurement, factors)

    return tell(replace(_MEAN, truth=paid))


def slower(measurement: Measurement, factors: Mapping[int, float]) -> Measurement:
    """The wait of each named request times its factor; its later tokens move along."""
    records = []
    for record in measurement.records:
        factor = factors.get(record.index, 1.0)
        first_s = record.first_chunk_s or 0.0
        moved_s = (first_s - record.sent_s) * (factor - 1)
        records.append(
            replace(
                record,
                first_chunk_s=first_s + moved_s,
                token_times_s=tuple(at_s + moved_s for at_s in record.token_times_s),
                end_s=record.end_s + moved_s,
            )
        )
    window_s = max(record.end_s for record in records)
    return counting(replace(measurement, records=tuple(records), window_s=window_s))


def _tails_pay() -> Evidence:
    """Most wait less, and a few of every kind wait six times as long."""

    def paid(role: str, arm: str, measurement: Measurement) -> Measurement:
        if arm == "A" or role == "soak":
            return measurement
        ordered = sorted(measurement.records, key=lambda record: record.prompt_tokens or 0)
        unlucky = {ordered[place].index for place in (4, 14, 24)}
        return slower(measurement, {record.index: 6.0 if record.index in unlucky else 0.6 for record in ordered})

    return tell(replace(_MEAN, truth=paid))


def _slow_readers_pay() -> Evidence:
    """Gaps are shorter on average, and a tenth of the answers crawl; the wait before them hides it from everything
    else."""
    slow = Speed(ttft_s=0.7, request_cv=0.05)
    story = Story(baseline=slow, candidate=slow.faster(1.0, 0.55)).changed(
        objective={"metric": "mean_tpot_ms", "min_effect": 0.05},
        guardrails=[{"metric": "mean_ttft_ms", "max_regression": 0.2}],
    )

    def crawl(role: str, arm: str, measurement: Measurement) -> Measurement:
        if arm == "A" or role == "soak":
            return measurement
        answers = sorted(measurement.records, key=lambda record: len(record.token_times_s))
        crawling = {record.index for record in answers[:3]}
        return _stretched(measurement, crawling, 4.0)

    return tell(replace(story, truth=crawl))


def _stretched(measurement: Measurement, which: set[int], factor: float) -> Measurement:
    """The gaps of the named answers `factor` times as long."""
    records = []
    for record in measurement.records:
        if record.index in which:
            first_s = record.token_times_s[0]
            times = tuple(first_s + factor * (at_s - first_s) for at_s in record.token_times_s)
            record = replace(record, token_times_s=times, end_s=times[-1] + 0.0008)
        records.append(record)
    window_s = max(record.end_s for record in records)
    return counting(replace(measurement, records=tuple(records), window_s=window_s))


def _no_end() -> Evidence:
    """Answers without a finish reason count as complete."""

    def odd(record: RequestRecord) -> RequestRecord:
        return replace(record, finish_reason=None) if record.index % 9 == 0 else record

    return with_records(usual(), candidates, odd)


def _error_as_answer() -> Evidence:
    """HTTP 200 with an error inside counts as a fast answer of the length that was asked for."""

    def odd(record: RequestRecord) -> RequestRecord:
        failed = record.index % 9 == 0
        return replace(record, error='error_payload: {"error": "overloaded"}') if failed else record

    return with_records(usual(), candidates, odd)


CASES: tuple[Case, ...] = (
    Case("k01", "A01", "cache.prefix_hits", "prompts that the cache has seen before", _harvest),
    Case("k02", "A01", "cache.prefix_hits", "one prompt in three that the cache has seen before", _harvest_of_some),
    Case("k03", "A02", "answers.counted", "answers from a cache in front of the engine", _answered_before),
    Case(
        "k04",
        "A03",
        "outputs.lengths",
        "answers of seven tenths the length",
        lambda: _shortened(False),
    ),
    Case("k05", "A03", "outputs.lengths", "answers of seven tenths the natural length", lambda: _shortened(True)),
    Case("k19", "A04", "service.failures", "a proxy hides that the engine turns requests away", _hidden_sheds),
    Case("k06", "A04", "service.failures", "the slowest is answered 503", _shed),
    Case("k07", "A04", "service.failures", "the slowest is left hanging", _gave_up),
    Case("k08", "A04", "accounting.balance", "the slowest has left no record", _lost_sight_of),
    Case("k09", "A05", "delivery.gaps", "all tokens but the first are held back to the end", _held_back),
    Case("k10", "A05", "delivery.gaps", "tokens in two heaps with a long pause between them", _stuttering),
    Case("k18", "A06", "workload.same", "the search ran a lighter mix", lambda: _another_workload(named("t1"))),
    Case("k11", "A06", "workload.same", "the candidate ran a lighter mix", lambda: _another_workload(_loaded)),
    Case("k12", "A07", "soundness.doubts", "the client sends late", _late_sends),
    Case("k13", "A07", "soundness.doubts", "the client has no core left", _busy_client),
    Case("k14", "A08", "slices.kept", "long prompts wait three times as long, the mean falls", _long_prompts_pay),
    Case("k15", "A09", "answers.valid", "answers without an end count as complete", _no_end),
    Case("k16", "A09", "answers.valid", "an error inside HTTP 200 counts as an answer", _error_as_answer),
    Case("k20", "B17", "tails.kept", "the mean gap falls, a tenth of the answers crawl", _slow_readers_pay),
    Case("k17", "B17", "tails.kept", "the mean falls, a tenth of all wait six times as long", _tails_pay),
)
