"""Can the change be taken back: the very text, the very config, and the baseline's speed again?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.standing import Standing
from tools.targets.knobs import Config
from verifiers.evidence import Evidence, TrialEvidence
from verifiers.faults import HARNESS_FAULTS
from verifiers.verdict import Verdict, error, failed, inconclusive, passed

RULE = "rollback.drill"

MARGIN = 0.25
"""Relative, around the baseline's launches on the same requests; three standard deviations of launches are added."""

MOST_LAUNCHES = 2
"""A launch outside the band is followed by one more: a neighbour's load is gone by then, damage isn't."""


def verify(evidence: Evidence) -> Verdict:
    """The reverse change was applied to the texts that would be committed; what they say was launched once more.

    Entry `rollback`: before, after, reverted (texts), the same of the manifest where there is one, config (read from
    the reverted text). Its trials run on the requests of the confirmation's first block; one of them inside the band of
    the baseline's launches is enough.
    """
    entries, trials = evidence.of_kind("rollback"), [t for t in evidence.extra if t.role == "rollback"]
    if not entries or not trials:
        return inconclusive(RULE, "taking the change back wasn't tried; it is where the confirmation passes")
    if len(trials) > MOST_LAUNCHES or len(entries) > 1:
        return failed(RULE, f"taking the change back was tried {max(len(trials), len(entries))} times", *trials)
    started, drill = evidence.of_kind("run.started"), entries[0].data
    if not started or "file_text" not in started[0].data or not {"before", "after", "reverted", "config"} <= set(drill):
        return error(RULE, "the ledger doesn't hold the texts before, after and reverted", *trials)
    fault = _text_fault(evidence, started[0].data["file_text"], drill)
    if fault := fault or _manifest_fault(evidence, started[0].data, drill):
        return failed(RULE, fault, *trials)
    strange = [t for t in trials if t.config != evidence.baseline]
    strange += [t for t in trials if t.measurement and t.measurement.config_digest != evidence.baseline.digest]
    if strange:
        return failed(RULE, f"trial {strange[0].id} served another config than the baseline's", *strange)
    answers = [_speed(evidence, trial) for trial in trials]
    return next((answer for answer in answers if answer.status != "FAIL"), answers[-1])


def _text_fault(evidence: Evidence, original: str, drill: Mapping[str, Any]) -> str:
    """What is wrong with the three texts; empty where the change stands in the second and is gone from the third."""
    if drill["before"] != original:
        return "the drill wasn't about the text that the run began with"
    if _config(evidence, drill["after"]) != evidence.candidate:
        return "the text that was taken back isn't what would be committed"
    if drill["reverted"] != original:
        return "the reverse change doesn't give the original text byte for byte"
    if Config(drill["config"]) != evidence.baseline:
        return "the config that was launched again isn't the baseline's"
    return ""


def _manifest_fault(evidence: Evidence, started: Mapping[str, Any], drill: Mapping[str, Any]) -> str:
    """The same of the manifest, whose three texts have to be there where the run began with one."""
    begun, texts = started.get("manifest"), drill.get("manifest")
    if begun is None and texts is None:
        return ""
    if begun is None or texts is None or texts["before"] != begun["text"]:
        return "the drill wasn't about the manifest that the run began with"
    try:
        standing = Standing.of(evidence.deployment, Path(begun["file"]), begun["text"])
        if texts["after"] != standing.changed(evidence.changes):
            return "the manifest that was taken back isn't what would be committed"
    except UserError as refusal:
        return f"the manifest that was taken back can't be read: {refusal}"
    return "" if texts["reverted"] == begun["text"] else "the reverse change doesn't give the original manifest"


def _config(evidence: Evidence, text: str) -> Config | None:
    try:
        return evidence.space.resolve(parse_deployment(YamlFile.parse(Path("deployment"), text)).deployment.config)
    except UserError:
        return None


def _speed(evidence: Evidence, trial: TrialEvidence) -> Verdict:
    """Is the objective inside the band of the baseline's launches on the same requests?"""
    if trial.measurement is None:
        tell = error if trial.failure in HARNESS_FAULTS else failed
        return tell(RULE, f"the reverted config doesn't run: {trial.failure or 'no measurement'}", trial)
    metric = evidence.deployment.objective.metric
    launches = [t for t in evidence.confirmation if t.arm == "A"]
    same = [t for t in launches if (t.seed, t.load_factor) == (trial.seed, trial.load_factor)]
    values = [t.summary.get(metric) for t in (*same, trial)]
    known = [value for value in values if value is not None and value > 0]
    if len(same) < 2 or len(known) < len(values):
        return error(RULE, f"{metric} of the rollback has no two launches of the baseline to stand beside", trial)
    *usual, now = known
    slack = MARGIN + 3 * _spread(launches, metric)
    low, high = min(usual) / (1 + slack), max(usual) * (1 + slack)
    said = f"{metric} {now:.1f} after the rollback, the baseline's launches {min(usual):.1f} to {max(usual):.1f}"
    if not low <= now <= high:
        return failed(RULE, f"{said}: outside {low:.1f} to {high:.1f}, so the change isn't undone by this", trial)
    return passed(RULE, f"the reverse change gives the original text, and {said}", *same, trial)


def _spread(launches: list[TrialEvidence], metric: str) -> float:
    """Standard deviation of the metric's logarithm among launches on the same requests, pooled over blocks."""
    groups: dict[tuple[int, float], list[float]] = {}
    for trial in launches:
        if (value := trial.summary.get(metric)) is not None and value > 0:
            groups.setdefault((trial.seed, trial.load_factor), []).append(math.log(value))
    centred = [value - sum(group) / len(group) for group in groups.values() for value in group]
    freedom = sum(len(group) - 1 for group in groups.values())
    return math.sqrt(sum(value**2 for value in centred) / freedom) if freedom > 0 else 0.0
