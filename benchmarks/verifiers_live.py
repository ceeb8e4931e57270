"""Rows `aa_live` and `gains_live`: whole confirmations of real launches of the bundled engine, by the real rule.

A tiny random model, whose step costs about the same however many sequences are in it: with a burst of requests, 5
seats instead of 4 then take 4/5 of the time. That is the planted gain of about 20 %; what it was is told beside.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import Unmeasurable
from benchmarks.table import Row
from tests.tiny_model import build_tiny_model
from tools.deployment import Deployment
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.service.load_spec import at_load
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config
from tools.trial import run_trial
from verifiers.plan import Plan
from verifiers.statistics.blocked import blocked_ratio
from verifiers.statistics.blocks import BlockValues, noise
from verifiers.statistics.look import Look, look

__all__ = ["aa_live", "gains_live"]

METRIC = "mean_e2el_ms"
SEATS, MORE_SEATS = 4, 5
AA_GATES, GAIN_GATES = 20, 10


def aa_live(quick: bool) -> Row:
    """Of 20 confirmations of a config against itself, how many are accepted."""
    gates = 1 if quick else AA_GATES
    accepted, told = _gates("aa", gates, SEATS)
    return {
        "value": f"{accepted} of {gates} accepted",
        "goal": f"0 of {AA_GATES}",
        "ok": None if quick else accepted == 0,
        **told,
    }


def gains_live(quick: bool) -> Row:
    """Of 10 confirmations of a true gain of about 20 %, how many are accepted."""
    gates = 1 if quick else GAIN_GATES
    accepted, told = _gates("gain", gates, MORE_SEATS)
    return {
        "value": f"{accepted} of {gates} accepted",
        "goal": f">= 9 of {GAIN_GATES}",
        "ok": None if quick else accepted >= 9,
        **told,
    }


def _gates(name: str, count: int, seats: int) -> tuple[int, Row]:
    """How many of `count` confirmations of `seats` against SEATS are accepted, and how each ended."""
    with _bench() as bench:
        ends = [bench.gate(f"{name}-{number}", SEATS, seats) for number in range(count)]
    return sum(end.decision == "accept" for end in ends), bench.told(ends)


@dataclass
class _Bench:
    """One target, and every block that was measured on it."""

    folder: Path
    target: BundledTarget
    deployment: Deployment
    blocks: list[BlockValues] = field(default_factory=list)

    def gate(self, name: str, seats: int, others: int) -> Look:
        """One confirmation of `others` seats against `seats`, to where its rule stops."""
        configs = {arm: self._config(count) for arm, count in (("A", seats), ("B", others))}
        plan = Plan.draw(name, self.deployment, configs["A"].digest, configs["B"].digest)
        measured: list[BlockValues] = []
        for block in plan.blocks:
            values: dict[str, list[float]] = {"A": [], "B": []}
            for arm in block.order:
                values[arm].append(self._launch(configs[arm], block.seed, block.load_factor))
            (a, b), (c, d) = values["A"], values["B"]
            measured.append(BlockValues((a, b), (c, d)))
            found = look(measured, plan.stopping)
            if found.decision != "go_on":
                break
        self.blocks += measured
        print(f"{name}: {found.decision} after {found.blocks} blocks, x{found.ratio:.3f}", file=sys.stderr, flush=True)
        return found

    def told(self, ends: list[Look]) -> Row:
        spread = noise([block.favourable(True) for block in self.blocks]) or math.nan
        return {
            "decisions": [f"{end.decision} after {end.blocks} blocks" for end in ends],
            "launches": 4 * len(self.blocks),
            "gain over all launches": round(1 - blocked_ratio(self.blocks), 3),
            "noise from launch to launch": round(spread, 4),
        }

    def _config(self, seats: int) -> Config:
        return self.target.knobs.resolve({**self.deployment.config, "max_num_seqs": seats})

    def _launch(self, config: Config, seed: int, factor: float) -> float:
        workload = materialise(at_load(self.deployment.workload, factor), seed)
        result = run_trial(self.target, config, workload, log=self.folder / "server.log", ready_timeout_s=120)
        if result.measurement is None:
            raise Unmeasurable(f"a launch failed: {result.failure.message if result.failure else 'no measurement'}")
        return summarise(result.measurement)[METRIC]


@contextmanager
def _bench() -> Iterator[_Bench]:
    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_model(Path(folder) / "tiny")
        deployment = Deployment.model_validate(
            {
                "name": "tiny",
                "model": str(model),
                "config": {"dtype": "fp32", "num_threads": 1, "max_model_len": 512, "kv_cache_tokens": 4096},
                "workload": {
                    "class": "chat",
                    "requests": 40,
                    "system_prompt_tokens": 24,
                    "prompt_tokens": {"min": 10, "max": 24},
                    "output_tokens": {"min": 24, "max": 40},
                    "arrivals": {"kind": "burst"},
                    "timeout_s": 60,
                },
                "objective": {"metric": METRIC, "min_effect": 0.05},
            }
        )
        yield _Bench(Path(folder), BundledTarget(model), deployment)
