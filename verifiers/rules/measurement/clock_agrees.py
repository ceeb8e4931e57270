"""Do the clocks agree: the client's, the server's, the harness's and the operating system's?"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median

from tools.measure import latency
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.targets.spec import ExternalSpec
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "clock.agrees"
_ROUNDING_S = 0.001
_WALL_SLACK_S = 2.0
"Between clocks that tell the time of day: a Date header has whole seconds, and clocks are set now and then."
_LONGER = (0.5, 0.5)
"""The client may see a request last longer than its server by so many seconds and this share: the way there and back,
on a machine that has little time for either."""
_SHORTER = (0.010, 0.05)
"And shorter by this much: the server's clock runs on while it hands its last token over."


def verify(evidence: Evidence) -> Verdict:
    """Every moment lies within the measurement's window, and that between the harness's entries before and after it;
    the server was started and the load begun between them; the server's own mean times, to the first token and to the
    last, are the client's; its Date header tells our time."""
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    told: dict[str, str] = {}
    for trial, measured in evidence.measured:
        if not trial.began_at or not trial.recorded_at or measured.identity_before is None:
            return error(RULE, f"when trial {trial.id} was announced, served and recorded isn't known", trial)
        ours = not isinstance(evidence.deployment.target, ExternalSpec)
        problem = _window(measured) or _harness(trial, measured, ours) or _date(measured)
        if problem:
            return failed(RULE, f"trial {trial.id}: {problem}", trial)
        for what, timer, of in _TIMERS:
            seconds, count = measured.counted(f"{timer}_seconds_sum"), measured.counted(f"{timer}_seconds_count")
            seen = [value for record in measured.records if (value := of(record)) is not None]
            if not evidence.counts(f"{timer}_seconds_sum"):
                told[what] = f"this engine doesn't time its requests to {what}"
                continue
            if seconds is None or not count or not seen:
                return error(RULE, f"the server of trial {trial.id} doesn't time its requests to {what}", trial)
            server_s, client_s = seconds / count, fmean(seen)
            told[what] = f"to {what} the server's mean is {server_s:.3f} s, the client's {client_s:.3f} s"
            if _apart(server_s, client_s):
                return failed(RULE, f"trial {trial.id}: {told[what]}", trial)
    return passed(RULE, f"client, server and harness agree on the time; {'; '.join(told.values())}", *evidence.trials)


def _first_token_s(record: RequestRecord) -> float | None:
    """Whatever became of the rest of the answer: the server has counted it."""
    return record.token_times_s[0] - record.sent_s if record.token_times_s else None


def _last_token_s(record: RequestRecord) -> float | None:
    return latency.e2el_from_send_s(record) if record.outcome == "ok" else None


_TIMERS: tuple[tuple[str, str, Callable[[RequestRecord], float | None]], ...] = (
    ("the first token", "ttft", _first_token_s),
    ("the last token", "e2e", _last_token_s),
)


def _apart(server_s: float, client_s: float) -> bool:
    longer, shorter = (seconds + share * server_s for seconds, share in (_LONGER, _SHORTER))
    return not -shorter <= client_s - server_s <= longer


def _window(measured: Measurement) -> str:
    ends = [record.end_s for record in measured.records]
    if ends and abs(max(ends) - measured.window_s) > _ROUNDING_S:
        return f"its window is {measured.window_s:.3f} s, its last request ended at {max(ends):.3f} s"
    for record in measured.records:
        if not -_ROUNDING_S <= record.scheduled_s <= record.sent_s + _ROUNDING_S:
            return f"request {record.index} was sent at {record.sent_s:.3f} s and due at {record.scheduled_s:.3f} s"
        if record.end_s < record.sent_s:
            return f"request {record.index} ended {record.sent_s - record.end_s:.3f} s before it was sent"
    return ""


def _harness(trial: TrialEvidence, measured: Measurement, ours: bool) -> str:
    """Against the harness's clock, by the entries before and after the trial; `ours`: it started the server itself."""
    spent_s = trial.recorded_at - trial.began_at
    if measured.window_s > spent_s + _ROUNDING_S:
        return f"its window is {measured.window_s:.3f} s, and {spent_s:.3f} s passed between its entries"
    assert measured.identity_before is not None
    for what, at in (
        ("its load began", measured.started_at),
        ("its server started, by its own word,", measured.identity_before.started_at),
        ("its server was started, by the operating system,", measured.identity_before.process_started_at),
    ):
        early_s, late_s = trial.began_at - at, at - trial.recorded_at
        if at and early_s > _WALL_SLACK_S and (ours or at == measured.started_at):
            return f"{what} {early_s:.1f} s before it was announced"
        if late_s > _WALL_SLACK_S:
            return f"{what} {late_s:.1f} s after it was recorded"
    return ""


def _date(measured: Measurement) -> str:
    skews = [record.clock_skew_s for record in measured.records if record.clock_skew_s is not None]
    if not skews or abs(median(skews)) <= _WALL_SLACK_S:
        return ""
    return f"the server's Date header is {median(skews):+.1f} s from the client's clock"
