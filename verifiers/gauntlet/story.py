"""Story: what was run, and what came of it. From it a whole run's evidence is told (`telling`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tools.canonical import digest
from tools.evals.results import EvalResults
from tools.measure.measurement import Measurement
from tools.measure.workload import Workload
from tools.targets.knobs import Config, Knob, Value
from verifiers.evidence import Attempt
from verifiers.gauntlet.load import Speed

__all__ = ["BEGAN", "DEPLOYMENT", "FILE", "KNOBS", "MANIFEST", "MODEL_DIGEST", "Bench", "Launched", "Story"]

FILE = Path("deployment.yaml")
MANIFEST = Path("compose.yaml")
BEGAN = 1_780_000_000.0
MODEL_DIGEST = digest("the model that was asked for")

DEPLOYMENT: Mapping[str, Any] = {
    "name": "chat",
    "model": "tiny",
    "config": {
        "max_num_seqs": 2,
        "max_num_batched_tokens": 1024,
        "kv_cache_tokens": 16384,
        "block_size": 16,
        "num_threads": 2,
        "dtype": "bf16",
        "max_queue_len": 64,
    },
    "workload": {
        "class": "chat",
        "requests": 32,
        "system_prompt_tokens": 48,
        "prompt_tokens": {"min": 16, "max": 96},
        "output_tokens": {"min": 8, "max": 16},
        "arrivals": {"kind": "poisson", "rate_rps": 8},
        "timeout_s": 20,
    },
    "slo": {"ttft_ms": {"p95": 1000}, "tpot_ms": {"p95": 100}},
    "objective": {"metric": "p95_ttft_ms", "min_effect": 0.05},
    "guardrails": [{"metric": "output_throughput", "max_regression": 0.1}],
    "evals": [{"name": "tickets", "scorer": "exact", "data": "tickets.jsonl"}],
    "acceptance": {"trials_per_arm": 12, "alpha": 0.05},
}
"""A deployment file's content. The keys under `config` are managed, but for `dtype` and `max_queue_len`."""

_UNMANAGED = frozenset({"dtype", "max_queue_len"})
_FOREIGN = ("max_num_seqs", "max_num_batched_tokens")
"Knobs that go by the same names in the other engine."

KNOBS: tuple[Knob, ...] = (
    Knob("max_num_seqs", "int", 32, "most sequences that run together", low=1, high=512, log=True, flag="--seqs"),
    Knob("max_num_batched_tokens", "int", 2048, "tokens of a step", low=64, high=65536, log=True, unit="tokens"),
    Knob("kv_cache_tokens", "int", 32768, "size of the KV cache", low=1024, high=1 << 22, log=True, unit="tokens"),
    Knob("block_size", "choice", 16, "tokens of a cache block", choices=(8, 16, 32)),
    Knob("num_threads", "int", 0, "threads", low=0, high=64, auto=0),
    Knob("dtype", "choice", "bf16", "of weights", choices=("bf16", "fp32", "int8"), outputs="lossy"),
    Knob("max_queue_len", "int", 64, "most waiting requests", low=1, high=1000, tunable=False),
)


COMPOSE = """\
# The platform team deploys this.
services:
  chat:
    image: vllm/vllm-openai:v0.11.0
    command:
      - --model=tiny
      - --max-num-seqs
      - "2"                        # seats
      - --max-num-batched-tokens=1024
  chat-canary:
    image: vllm/vllm-openai:v0.11.0
    command: --model=tiny --max-num-seqs 2
"""
"""A manifest in which the config stands a second time; `standing_twice` names it."""

_USUAL = Speed()
_FASTER = _USUAL.faster(0.70, 0.95)


@dataclass(frozen=True, slots=True)
class Launched:
    """What one launch yielded."""

    measurement: Measurement
    evals: EvalResults | None
    ready_s: float
    wall_s: float
    "From the launch until it was stopped."
    began_at: float
    "Unix seconds of the launch, by the clock that the measurement was made by."


class Bench(Protocol):
    """Where a story's launches are measured."""

    def launch(
        self, name: str, role: str, arm: str, config: Config, workload: Workload, *, with_evals: bool
    ) -> Launched: ...


@dataclass(frozen=True)
class Story:
    """What was run, and what came of it."""

    run: str = "chat-20260601-101500"
    deployment: Mapping[str, Any] = field(default_factory=lambda: DEPLOYMENT)
    knobs: tuple[Knob, ...] = KNOBS
    unmanaged: frozenset[str] = _UNMANAGED
    patch: Mapping[str, Value] = field(default_factory=lambda: {"max_num_seqs": 16})
    baseline: Speed = _USUAL
    candidate: Speed = _FASTER
    searched: Speed | None = None
    "The candidate's speed while it was searched for, where it was another than in the confirmation."
    search_seed: int | None = None
    launch_s: float = 4.0
    "From a launch until its load begins, where launches are made up."
    drift: float = 0.0
    "How much slower each launch of the confirmation is than the one before, as a share."
    flips: float = 0.02
    jitter: float = 0.01
    candidate_flips: float | None = None
    candidate_jitter: float | None = None
    "The candidate's own, where they differ from the baseline's."
    noise: str = ""
    "Another word, another draw of all noise."
    bench: Bench | None = None
    "Where the launches are really measured; None where they are made up."
    truth: Callable[[str, str, Measurement], Measurement] | None = None
    "What a launch's load (by role and arm) was really like, made of what it would have been."
    attempts: tuple[Attempt, ...] = ()
    level: float | None = None
    "Of the plan, where it isn't what follows from the owner's alpha."
    repeats: bool = False
    "Whether the candidate was tried twice in the search."
    crash_log: str = ""
    "What a server said before it died, in a trial of another config before this one; no such trial where empty."
    hypothesis: str = "More requests are in the system than may run together, so the rest wait for a seat."

    manifest: str = ""
    "The text of the manifest that the deployment names; empty where it names none."

    def changed(self, **fields: Any) -> Story:
        """The same story under a deployment with other values in these sections."""
        return replace(self, deployment={**self.deployment, **fields})

    def standing_twice(self) -> Story:
        """The same story of another engine, whose config stands in a compose file too."""
        values = {name: self.deployment["config"][name] for name in _FOREIGN}
        named = {"file": MANIFEST.name, "site": "services.chat.command"}
        told = self.changed(target={"kind": "vllm"}, manifest=named, config=values)
        return replace(told, knobs=tuple(knob for knob in self.knobs if knob.name in _FOREIGN), manifest=COMPOSE)
