"""Row `screening`: whether trials with a share of the requests rank configs as full trials do, under recorded noise.

Every config of the report card's recorded surface is played twice: with the first part of a load, and with a whole load
under another seed. Both have the luck of a launch of their own. Beside it stands how well a second whole trial agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import median

from scipy.stats import spearmanr

from autotune.report_card.noise import noise_of
from autotune.report_card.playback import Process, play
from autotune.report_card.reference import Reference, reference_of
from benchmarks.agents_countdown import counted
from benchmarks.table import Row
from tools.measure.summary import lower_is_better, summarise
from tools.measure.workload import WorkloadSpec, materialise

__all__ = ["screening"]

SURFACE = "chat"
OBJECTIVES = ("p95_ttft_ms", "mean_e2el_ms", "output_throughput")
SHARES = (0.25, 0.5, 1.0)
SCREENED = 0.5
"The share that the goal is about."
SEEDS, QUICK_SEEDS = 20, 2
AGREE, KEPT = 0.9, 0.95


def screening(quick: bool) -> Row:
    """Spearman's rank correlation of cheap trials with full ones, and whether a screen keeps the best."""
    seeds = QUICK_SEEDS if quick else SEEDS
    reference = reference_of(SURFACE)
    agreement: dict[tuple[str, float], list[float]] = {}
    kept: dict[tuple[str, float], list[bool]] = {}
    for seed in counted("screening", range(seeds)):
        full = _played(reference, 1.0, 2 * seed)
        for share in SHARES:
            cheap = _played(reference, share, 2 * seed + 1)
            for objective in OBJECTIVES:
                here, there = ([found[objective] for found in trials] for trials in (cheap, full))
                key = (objective, share)
                agreement.setdefault(key, []).append(float(spearmanr(here, there).statistic))
                kept.setdefault(key, []).append(_keeps_the_best(reference, objective, here))
    agree = {key: median(values) for key, values in agreement.items()}
    keeps = {key: sum(values) / len(values) for key, values in kept.items()}
    least = min(agree[objective, SCREENED] for objective in OBJECTIVES)
    least_kept = min(keeps[objective, SCREENED] for objective in OBJECTIVES)
    return {
        "value": f"rank correlation {least:.3f} at worst with {SCREENED:.0%} of the requests; the better half by it "
        f"holds a config within 3 % of the best in {least_kept:.0%} of the screens",
        "goal": f">= {AGREE}, and the best kept in >= {KEPT:.0%}",
        "ok": None if quick else least >= AGREE and least_kept >= KEPT,
        "seeds": seeds,
        "configs": len(full),
        "objectives": {
            objective: {
                f"{share:.0%} of the requests": {
                    "rank correlation": round(agree[objective, share], 3),
                    "best kept": round(keeps[objective, share], 3),
                }
                for share in SHARES
            }
            for objective in OBJECTIVES
        },
    }


def _played(reference: Reference, share: float, seed: int) -> list[dict[str, float]]:
    """One trial of every config that starts, with the first `share` of the requests."""
    surface, noise = reference.surface, noise_of(reference.surface)
    requests = max(2, round(share * surface.workload.requests))
    spec = WorkloadSpec.model_validate(
        {**surface.workload.model_dump(mode="json", by_alias=True, exclude_unset=True), "requests": requests}
    )
    load = materialise(spec, seed)
    found = []
    for number, cell in enumerate(cell for cell in surface.cells if cell.failure is None):
        luck = noise.deal(Random(f"{seed}/{share}/{number}"), requests)
        process = Process(number + 1, 0.0, cell.ready_s)
        config = reference.config(cell)
        found.append(summarise(play(surface, cell, load, config, reference.target.knobs, process, luck)))
    return found


def _keeps_the_best(reference: Reference, objective: str, screened: Sequence[float]) -> bool:
    """Whether the better half by `screened` holds a config that is truly within 3 % of the best."""
    sign = 1 if lower_is_better(objective) else -1
    cells = [cell for cell in reference.surface.cells if cell.failure is None]
    truths = [(reference.summary(reference.config(cell)) or {})[objective] for cell in cells]
    order = sorted(range(len(cells)), key=lambda number: sign * screened[number])
    best = min(truths, key=lambda value: sign * value)
    return any(abs(truths[number] / best - 1) <= 0.03 for number in order[: len(order) // 2])
