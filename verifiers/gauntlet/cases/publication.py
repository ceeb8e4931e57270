"""Attacks on what is published (B01, B05, D08, D12, E07, E09, E10): invented figures, other files, another judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.canonical import digest
from tools.ledger import Entry
from verifiers.evidence import Change, Evidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import with_change, with_data
from verifiers.gauntlet.honest import Story, tell, usual

__all__ = ["CASES"]


def _change() -> Change:
    change = usual().change
    assert change is not None
    return change


def _said(hypothesis: str) -> Evidence:
    """A proposer's own words, as the harness records and shows them."""
    return tell(Story(hypothesis=hypothesis))


def _in_the_message() -> Evidence:
    message = _change().message + "\n\nThroughput rose by 212 % and p99_ttft_ms fell to 3.1 ms."
    return with_change(usual(), message=message)


def _read_me() -> Evidence:
    return with_change(usual(), files=(_change().file, "README.md"))


def _another_key() -> Evidence:
    """The promise is loosened along with the knob."""
    return with_change(usual(), after_text=_change().after_text.replace("p95: 1000", "p95: 10000"))


def _another_comment() -> Evidence:
    return with_change(usual(), after_text=_change().after_text.replace("team's", "platform team's"))


def _base_moved() -> Evidence:
    return with_change(usual(), current_head=digest("somebody's commit")[:40])


def _file_changed() -> Evidence:
    """Somebody edited the file in the meantime."""
    return with_change(usual(), current_text=_change().current_text.replace("block_size: 16", "block_size: 32"))


def _token_in_prose() -> Evidence:
    return _said("The metric's label says key=" + "hf_" + "QxTzVbNmKjHgFdSaPoIu" + ", and seats are the limit.")


def _token_in_message() -> Evidence:
    secret = "Authorization: Bearer " + "mF9xQ2vT7bL4kR8sN1wZ5cY3"
    return with_change(usual(), message=_change().message + f"\n\n{secret}")


def _another_judge() -> Evidence:
    """The verdict comes from other code than the run began with."""
    other = digest("verifiers with one comparison turned round")
    return with_data(usual(), "verdict", lambda entry: {**entry.data, "verifiers_digest": other})


def _promise_loosened() -> Evidence:
    """The deployment's text was changed while the run was under way."""

    def loosened(entry: Entry) -> Mapping[str, Any]:
        return {**entry.data, "file_text": entry.data["file_text"].replace("p95: 1000", "p95: 10000")}

    return with_data(usual(), "harness", loosened)


def _playbook_swapped() -> Evidence:
    return with_data(usual(), "harness", lambda entry: {**entry.data, "playbook_digest": digest("another playbook")})


def _not_asked() -> Evidence:
    """The verdict lacks the question about quality that the proposer would rather not have answered."""
    return _verdicts("verdict", lambda verdicts: [one for one in verdicts if one["rule"] != "quality.logprobs"])


def _asked_twice() -> Evidence:
    """A question was asked until the answer was right."""
    return _verdicts("verdict", lambda verdicts: [*verdicts, verdicts[-1]])


def _trial_not_asked() -> Evidence:
    return _verdicts("judgement", lambda verdicts: verdicts[1:])


def _verdicts(kind: str, edit: object) -> Evidence:
    assert callable(edit)
    return with_data(usual(), kind, lambda entry: {**entry.data, "verdicts": edit(entry.data["verdicts"])})


def _fault_as_success() -> Evidence:
    """A question that couldn't be answered counts as answered."""

    def blurred(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**one, "status": "ERROR"} if one["rule"] == "identity.model" else one for one in verdicts]

    return _verdicts("judgement", blurred)


def _fault_as_failure() -> Evidence:
    """A server died of what isn't its config's doing, and the config was blamed."""
    run = tell(Story(crash_log="no space left on device"))
    return with_data(
        run, "judgement", lambda entry: {**entry.data, "status": "FAIL"} if entry.key == "judge:t1" else entry.data
    )


CASES: tuple[Case, ...] = (
    Case("r01", "B01", "claims.traceable", "a figure that nobody measured", lambda: _said("Throughput rises by 23 %.")),
    Case(
        "r02",
        "B01",
        "claims.traceable",
        "a latency that nobody measured",
        lambda: _said("p95 TTFT is 4.25 ms."),
    ),
    Case("r03", "B01", "claims.traceable", "figures added to the message", _in_the_message),
    Case("r04", "B05", "integrity.harness", "judged by other code", _another_judge),
    Case("r05", "B05", "integrity.harness", "the promise was loosened meanwhile", _promise_loosened),
    Case("r06", "B05", "integrity.harness", "the playbook was swapped meanwhile", _playbook_swapped),
    Case("r07", "D08", "change.only_planned", "another file is changed too", _read_me),
    Case("r08", "D08", "change.only_planned", "another key is changed too", _another_key),
    Case("r09", "D08", "change.only_planned", "a comment is changed too", _another_comment),
    Case("r10", "D12", "change.base_fresh", "the base moved", _base_moved),
    Case("r11", "D12", "change.base_fresh", "somebody changed the file meanwhile", _file_changed),
    Case("r12", "E07", "change.secrets", "a token in the proposer's words", _token_in_prose),
    Case("r13", "E07", "change.secrets", "a token in the message", _token_in_message),
    Case("r14", "E09", "integrity.all_asked", "a question was left out of the verdict", _not_asked),
    Case("r15", "E09", "integrity.all_asked", "a question was asked twice", _asked_twice),
    Case("r16", "E09", "integrity.all_asked", "a question was left out of a trial's judgement", _trial_not_asked),
    Case("r18", "E10", "integrity.faults", "a config is blamed for the harness's fault", _fault_as_failure),
    Case("r17", "E10", "integrity.faults", "a question without an answer counts as passed", _fault_as_success),
)
