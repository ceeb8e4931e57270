"""Scene: what every told run has around it: a machine, a past, a file, and judgements that passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tools.canonical import digest
from tools.profile.physics import ModelFacts, floor_ms
from tools.profile.roofline import Roofline
from verifiers.catalogue import STAGES
from verifiers.digest import verifiers_digest
from verifiers.evidence import Evidence
from verifiers.gauntlet.story import BEGAN, MODEL_DIGEST, Story
from verifiers.rule import Stage
from verifiers.rules import effect
from verifiers.verdict import Verdict

__all__ = ["RESOURCES", "as_passed", "file_text", "history", "judgement", "passed", "survey"]

RESOURCES: Mapping[str, int] = {
    "cores": 4,
    "gpus": 0,
    "replicas": 1,
    "rss_before_bytes": 900 << 20,
    "rss_middle_bytes": 903 << 20,
    "rss_after_bytes": 905 << 20,
}


def file_text(story: Story) -> str:
    """The deployment as its owner wrote it."""
    lines = ["# The team's chat assistant.", "config:"]
    for name, value in story.deployment["config"].items():
        mark = "" if name in story.unmanaged else "  # autotune: managed"
        lines.append(f"  {name}: {value}{mark}")
    rest = {name: value for name, value in story.deployment.items() if name != "config"}
    return "\n".join(lines) + "\n" + yaml.safe_dump(rest, sort_keys=False)


def survey() -> dict[str, Any]:
    """A small machine: a token's step takes 5 ms at the least."""
    roofline = Roofline(read_bytes_per_s=4.0e10, flops_per_s_bf16=8.0e11, flops_per_s_fp32=4.0e11, threads=4)
    facts = ModelFacts(step_bytes=260_000_000, token_parameters=120_000_000, head_parameters=10_000_000)
    floor = floor_ms(roofline, facts, 16)
    return {
        "hardware": {"cores": 4, "memory_bytes": 16 << 30},
        "environment": digest("one machine"),
        "memory_bytes": 16 << 30,
        "model_digest": MODEL_DIGEST,
        "memory_need_bytes": 1 << 30,
        "roofline": roofline.to_json(),
        "floors": {"ttft_ms": floor.ttft_ms, "tpot_ms": floor.tpot_ms, "e2el_ms": floor.e2el_ms},
        "physics": {"model": facts.to_json()},
        "facts": {"cores": 4, "memory_bytes": 16 << 30, "gpus": 0, "gpu_memory_bytes": 0},
    }


def history() -> list[dict[str, Any]]:
    """Commits of the deployment file before the run, newest first."""
    day_s = 86_400.0
    ours = {"run": "chat-20260418-090000", "changes": {"max_num_seqs": [1, 2]}}
    theirs = {"run": "", "changes": {"kv_cache_tokens": [8192, 16384]}}
    return [
        {"sha": digest("second")[:40], "at": BEGAN - 44 * day_s, **ours},
        {"sha": digest("first")[:40], "at": BEGAN - 90 * day_s, **theirs},
    ]


def passed(stage: Stage) -> dict[str, Any]:
    """The judgement of a stage that the run passed."""
    return judgement([Verdict(rule.id, "PASS", "as it should be") for rule in STAGES[stage]])


def as_passed(confirmed: Evidence) -> list[Verdict]:
    """The verdict of a gate that saw nothing wrong: else no attack would ever come to be published.

    The rules about the effect speak for themselves, so that the message has real figures.
    """
    said = {rule.id: rule.verify(confirmed) for rule in effect.RULES}
    passing = {name: verdict for name, verdict in said.items() if verdict.status == "PASS"}
    return [passing.get(rule.id, Verdict(rule.id, "PASS", "as it should be")) for rule in STAGES["confirm"]]


def judgement(verdicts: Iterable[Verdict], score: float = 0.0) -> dict[str, Any]:
    """What is recorded where every question was answered PASS."""
    said = [verdict.to_json() for verdict in verdicts]
    return {"verdicts": said, "status": "PASS", "score": score, "verifiers_digest": verifiers_digest()}
