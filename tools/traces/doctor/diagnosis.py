"""Diagnosis: every application of a log looked at for each fault, and every remedy tried out on its prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.traces.doctor.apps import App, apps_of
from tools.traces.doctor.capture import CapturedLog, capture
from tools.traces.doctor.fields import Field, fields_of, moved_to_end
from tools.traces.doctor.finding import Finding
from tools.traces.doctor.layout import Prompt, cached_pieces
from tools.traces.doctor.order import Shuffle, shuffle_of
from tools.traces.doctor.window import Window, window_of
from tools.traces.doctor.writing import Variants, variants_of

__all__ = ["Diagnosis", "diagnose"]

MOST_REQUESTS = 2000
"From the log's beginning: enough to see a fault in, and few enough to try every remedy."
_LEAST_GAIN = 0.01
"Hit rate that a remedy must add, over the whole log, to be worth a word."

Mend = Callable[[Sequence[Prompt]], list[Prompt]]


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a log."""

    log: CapturedLog
    apps: tuple[App, ...]
    findings: tuple[Finding, ...]
    hit_rate: float
    "Of the prompts as they are, with an unlimited cache."
    hit_rate_mended: float
    "With all remedies."
    uncached: float
    "Prompt tokens per request that no cache holds, as they are."
    uncached_mended: float

    def to_json(self) -> dict[str, Any]:
        return {
            "log": {
                "path": str(self.log.path),
                "format": self.log.format,
                "requests": len(self.log.prompts),
                "whole": self.log.whole,
                "bad_lines": self.log.bad,
            },
            "apps": [len(app.members) for app in self.apps],
            "hit_rate": self.hit_rate,
            "hit_rate_mended": self.hit_rate_mended,
            "uncached_tokens": self.uncached,
            "uncached_tokens_mended": self.uncached_mended,
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A fault that was seen, and its remedy for the prompts of its application."""

    finding: Finding
    mend: Mend


def diagnose(
    path: Path,
    *,
    format_name: str | None = None,
    prefill_s_per_token: float | None = None,
    most: int = MOST_REQUESTS,
) -> Diagnosis:
    """What breaks prefix sharing in the log at `path`.

    Faults are mended from the top of the prompt down, for what stands above hides what stands below; each finding's
    figures are with everything above it mended. A remedy that adds less than one point of hit rate is no finding.

    Raises:
        UserError: as `read_log`, or a log without prompts.
    """
    log = capture(path, format_name=format_name, most=most)
    apps = apps_of(log.prompts)
    prompts = list(log.prompts)
    now = _Figures.of(prompts)
    first = now
    findings = []
    for number, app in enumerate(apps):
        for suspect in _suspects(number, app, prompts):
            tried = list(prompts)
            for index, mended in zip(app.members, suspect.mend([prompts[i] for i in app.members]), strict=True):
                tried[index] = mended
            then = _Figures.of(tried)
            if then.hit_rate - now.hit_rate < _LEAST_GAIN:
                continue
            saved_s = None if prefill_s_per_token is None else (now.uncached - then.uncached) * prefill_s_per_token
            findings.append(
                replace(
                    suspect.finding,
                    hit_rate_before=now.hit_rate,
                    hit_rate_after=then.hit_rate,
                    uncached_before=now.uncached,
                    uncached_after=then.uncached,
                    ttft_saved_s=saved_s,
                )
            )
            prompts, now = tried, then
    return Diagnosis(log, apps, tuple(findings), first.hit_rate, now.hit_rate, first.uncached, now.uncached)


@dataclass(frozen=True, slots=True)
class _Figures:
    hit_rate: float
    uncached: float

    @classmethod
    def of(cls, prompts: Sequence[Prompt]) -> _Figures:
        hits, total = cached_pieces(prompts)
        return cls(hits / total if total else 0.0, (total - hits) / len(prompts))


def _suspects(number: int, app: App, prompts: Sequence[Prompt]) -> list[_Suspect]:
    """The faults of one application, from the top of its prompts down. Each is looked for in prompts whose spelling and
    order are mended, for a field is found by what agrees behind it."""
    members = [prompts[index] for index in app.members]
    reference = app.members.index(app.reference)
    found: list[_Suspect] = []
    if (variants := variants_of(members)) is not None:
        found.append(_written(number, variants, members))
        members = [variants.mended(prompt) for prompt in members]
    if (shuffle := shuffle_of(members, members[reference])) is not None:
        found.append(_ordered(number, shuffle, members))
        members = [shuffle.mended(prompt) for prompt in members]
    for field in fields_of(members, members[reference]):
        found.append(_fixed(number, field, members, members[reference]))
    if (window := window_of(members)) is not None:
        found.append(_kept(number, window, members))
    return sorted(found, key=lambda suspect: suspect.finding.position)


def _finding(fault: str, app: int, position: int, length: int, seen: int, of: int, looks: str, remedy: str) -> Finding:
    return Finding(fault, app, position, length, seen, of, looks, remedy, 0.0, 0.0, 0.0, 0.0)


def _written(app: int, variants: Variants, members: Sequence[Prompt]) -> _Suspect:
    remedy = "Write it one way in all requests"
    at, of = variants.position, len(members)
    finding = _finding("format", app, at, 0, variants.requests, of, variants.looks, remedy)
    return _Suspect(finding, lambda prompts: [variants.mended(prompt) for prompt in prompts])


def _ordered(app: int, shuffle: Shuffle, members: Sequence[Prompt]) -> _Suspect:
    remedy = "Sort them before sending"
    finding = _finding(
        "shuffled_list",
        app,
        shuffle.position,
        shuffle.entries,
        shuffle.requests,
        len(members),
        shuffle.looks,
        remedy,
    )
    return _Suspect(finding, lambda prompts: [shuffle.mended(prompt) for prompt in prompts])


def _fixed(app: int, field: Field, members: Sequence[Prompt], reference: Prompt) -> _Suspect:
    remedy = "Move it behind everything that stays the same"
    length = field.end - field.start
    finding = _finding("varying_field", app, field.start, length, field.requests, len(members), field.looks, remedy)
    return _Suspect(finding, lambda prompts: [moved_to_end(prompt, reference, [field]) for prompt in prompts])


def _kept(app: int, window: Window, members: Sequence[Prompt]) -> _Suspect:
    remedy = f"Cut it {window.length} messages at a time, not with every turn"
    looks = f"{window.length} messages kept"
    finding = _finding("sliding_window", app, window.position, 0, len(window.slid), len(members), looks, remedy)
    return _Suspect(finding, window.mended)
