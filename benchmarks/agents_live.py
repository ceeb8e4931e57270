"""Row `live`: the real engine, launched for every trial; ours against TPE and random by the same wall clock.

    taskset -c 1 env OMP_NUM_THREADS=1 python -m benchmarks.agents --row live

The rules are those of `agents_play`, but that the clock is real: what a strategy thinks counts too. Strategies take
turns, scenario by scenario and seed by seed, each turn another one first, so that a machine that slows down favours
nobody. What was shipped is launched again, three times under seeds that nobody has seen, all that are compared in turn.
What a number format costs in quality is known from the recording. Keep the machine quiet: an hour, as it was recorded.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import geometric_mean

from benchmarks.agents_contestants import CONTESTANTS, OURS
from benchmarks.agents_countdown import counted
from benchmarks.agents_figures import DEFAULT_TRIALS
from benchmarks.agents_play import Exploration, Shipped, by_count, by_seconds
from benchmarks.surfaces.scenario import LOADS, SCENARIOS
from benchmarks.surfaces.table import Table, Trial, load_table
from benchmarks.table import Row
from tools.errors import UserError
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.models import pull
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import KnobSpace, Value
from tools.trial import run_trial

__all__ = ["live"]

TABLES = ("bundled-general", "bundled-output")
"Recorded tables whose scenario is one load: what is played here."
PLAYERS = (OURS, "tpe", "random")
SEEDS, RELAUNCHES = 3, 3
MODEL = "smollm2-135m"
READY_S = 60.0
UNSEEN = 5000
"Workload seeds of the relaunches begin here; those of the trials lie below."


@dataclass
class Engine:
    """The bundled engine as a stand: every trial is a launch of its own."""

    table: Table
    "What was recorded of the same scenario: its knobs, default, noise and quality."
    target: BundledTarget
    folder: Path
    _since: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return f"live {self.table.name}"

    @property
    def knobs(self) -> KnobSpace:
        return self.table.knobs

    @property
    def default(self) -> Mapping[str, Value]:
        return self.table.default

    @property
    def noise(self) -> float:
        return self.table.noise

    def trial(self, values: Mapping[str, Value], rng: Random) -> Trial:
        """One launch under one load. It takes the time since the last one ended, the strategy's thinking included."""
        found = self.measured(values, rng.randrange(UNSEEN))
        now = time.monotonic()
        took_s, self._since = now - self._since, now
        quality = self.table.row(values).quality
        return Trial(found.score, found.metrics, took_s, found.failure, quality)

    def measured(self, values: Mapping[str, Value], seed: int) -> Trial:
        """One launch under the workload of `seed`."""
        scenario = SCENARIOS[self.table.scenario]
        (load,) = scenario.loads
        config, began = self.target.knobs.resolve(dict(values)), time.monotonic()
        workload = materialise(LOADS[load], seed)
        result = run_trial(self.target, config, workload, log=self.folder / "server.log", ready_timeout_s=READY_S)
        seconds = time.monotonic() - began
        if result.measurement is None:
            failure = (result.failure.kind, result.failure.message) if result.failure else ("crash", "no measurement")
            return Trial(None, {}, seconds, failure, 1.0)
        metrics = summarise(result.measurement)
        return Trial(scenario.score({load: metrics}), metrics, seconds, None, 1.0)


def live(quick: bool) -> Row:
    """Two scenarios, three strategies, three seeds; in its small form one scenario, two trials each."""
    tables = [load_table(name) for name in (TABLES[:1] if quick else TABLES)]
    seeds = 1 if quick else SEEDS
    scores: dict[tuple[str, str], list[float]] = {}
    shipped: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        target = BundledTarget(pull(MODEL))
        jobs = [(table, seed) for seed in range(seeds) for table in tables]
        for number, (table, seed) in enumerate(counted("live", jobs)):
            order = [*PLAYERS[number % len(PLAYERS) :], *PLAYERS[: number % len(PLAYERS)]]
            ends = {name: _played(name, Engine(table, target, Path(folder)), seed, quick) for name in order}
            found = _relaunched(Engine(table, target, Path(folder)), ends, 1 if quick else RELAUNCHES)
            for name, score in found.items():
                scores.setdefault((table.name, name), []).append(score)
                shipped.setdefault(f"{name} on {table.name}", []).append(str(dict(ends[name].patch)))
    means = {key: geometric_mean(values) for key, values in scores.items()}
    ratios = {
        f"{table.name} against {name}": means[table.name, OURS] / means[table.name, name]
        for table in tables
        for name in PLAYERS[1:]
    }
    worst = min(ratios.values())
    return {
        "value": f"{OURS}: {worst:.3f}x at worst",
        "goal": f">= 1.0x TPE and random on each of {len(TABLES)} scenarios, {SEEDS} seeds, equal wall clock",
        "ok": None if quick else worst >= 1.0,
        "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "scores": {f"{name} on {table}": [round(s, 3) for s in found] for (table, name), found in scores.items()},
        "shipped": shipped,
    }


def _played(name: str, engine: Engine, seed: int, quick: bool) -> Shipped:
    exploration = Exploration(engine, CONTESTANTS[name].strategy(engine.table, seed), seed)
    budget = by_count(2) if quick else by_seconds(DEFAULT_TRIALS * exploration.default.trial.seconds)
    return CONTESTANTS[name].ship(exploration, budget)


def _relaunched(engine: Engine, ends: Mapping[str, Shipped], times: int) -> dict[str, float]:
    """Score of what each has shipped, over fresh launches in turn; of the default where one fails.

    Raises:
        UserError: the default itself doesn't run.
    """
    patches: dict[str, Mapping[str, Value]] = {"default": {}, **{name: end.patch for name, end in ends.items()}}
    scores: dict[str, list[float | None]] = {name: [] for name in patches}
    for number in range(times):
        for name, patch in patches.items():
            scores[name].append(engine.measured({**engine.default, **patch}, UNSEEN + number).score)
    default = _mean(scores["default"])
    if default is None:
        raise UserError(f"{engine.name}: the default doesn't run; see that the machine is free")
    return {name: _mean(scores[name]) or default for name in ends}


def _mean(scores: Sequence[float | None]) -> float | None:
    """Geometric; None where a launch failed."""
    known = [score for score in scores if score is not None]
    return geometric_mean(known) if len(known) == len(scores) else None
