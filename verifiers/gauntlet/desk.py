"""Desk: where nothing is launched. Loads and answers are made up, with noise like a real one's."""

from __future__ import annotations

from dataclasses import replace

from tools.measure.workload import Workload
from tools.targets.knobs import Config, KnobSpace
from verifiers.gauntlet.load import Served, Speed, measured
from verifiers.gauntlet.said import said
from verifiers.gauntlet.story import BEGAN, MODEL_DIGEST, Launched, Story

__all__ = ["Desk"]


class Desk:
    """Where nothing is launched: loads and answers are made up, with noise like a real one's."""

    def __init__(self, story: Story, model: str, space: KnobSpace, baseline: Config) -> None:
        self._story = story
        self._model = model
        self._space = space
        self._baseline = baseline
        self._launches = 0

    def launch(
        self, name: str, role: str, arm: str, config: Config, workload: Workload, *, with_evals: bool
    ) -> Launched:
        story, began_at = self._story, BEGAN
        self._launches += 1
        served = Served(
            config=config,
            model=self._model,
            model_digest=MODEL_DIGEST,
            autos={knob.name: 2 for knob in self._space if knob.auto is not None and config.values[knob.name] == 0},
            process_started_at=began_at + 0.05 * story.launch_s,
            started_at=began_at + 0.55 * story.launch_s,
            pid=5000 + self._launches,
        )
        noise = f"{story.noise}/{story.run}/{name}"
        measurement = measured(workload, served, self._speed(name, role, config), began_at + story.launch_s, noise)
        flips, jitter = (story.flips, story.jitter) if arm == "A" else (story.candidate_flips, story.candidate_jitter)
        evals = None
        if with_evals:
            evals = said(noise, flips=story.flips if flips is None else flips, jitter=jitter or story.jitter)
        ready_s = 0.75 * story.launch_s + 0.01 * (self._launches % 7)
        return Launched(
            measurement, evals, ready_s, wall_s=1.5 * story.launch_s + measurement.window_s, began_at=began_at
        )

    def _speed(self, name: str, role: str, config: Config) -> Speed:
        story = self._story
        if config == self._baseline:
            speed = story.baseline
        else:
            speed = story.searched if role == "search" and story.searched is not None else story.candidate
        slower = (1 + story.drift) ** (int(name[1:]) - 1) if role == "confirm" else 1.0
        # A soak has a patience of its own, and is told apart from what a network loses.
        kept = replace(speed, failing_share=0.0, lost_share=0.0) if role == "soak" else speed
        return kept.faster(slower, slower)
