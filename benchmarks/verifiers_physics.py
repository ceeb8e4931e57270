"""Row `physics`: the roofline's floors and ceilings against what the bundled engine really does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import model_dir
from benchmarks.table import Row
from tools.measure import Measurement, WorkloadSpec, materialise, summarise
from tools.profile import SAFETY, ModelFacts, Roofline, Traffic, ceilings, floor_ms
from tools.profile.probe import measure_roofline
from tools.targets.bundled import BundledTarget
from tools.trial import run_trial

__all__ = ["physics"]

CONFIGS: dict[str, dict[str, Any]] = {
    "as stored": {},
    "8 bits": {"quantization": "int8"},
}
LOADS: dict[str, dict[str, Any]] = {
    "one at a time": {"requests": 8, "arrivals": {"kind": "closed", "concurrency": 1}},
    "all at once": {"requests": 32, "arrivals": {"kind": "burst"}},
}
SHAPE: dict[str, Any] = {"class": "chat", "prompt_tokens": 128, "output_tokens": 32, "timeout_s": 300}


def physics(quick: bool = False) -> Row:
    """Floors and ceilings of a config, against trials with one request at a time and with all at once.

    A margin is measured / floor for a latency and ceiling / measured for a throughput: under 1 an honest result would
    be refused, and far over 1 the bound would let a lie pass. `quick` leaves out the quantised config.
    """
    target = BundledTarget(model_dir())
    standing = target.knobs.resolve({"max_num_seqs": 32})
    roofline = measure_roofline(seconds=4.0, step_bytes=target.facts(standing).step_bytes)
    margins: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for config_name in list(CONFIGS)[: 1 if quick else None]:
            config = standing.patched(CONFIGS[config_name])
            for load_name, load in LOADS.items():
                workload = materialise(WorkloadSpec.model_validate({**SHAPE, **load}), seed=1)
                result = run_trial(target, config, workload, log=Path(folder) / "engine.log", ready_timeout_s=300)
                if result.measurement is None:
                    why = result.failure.message if result.failure else "no reason"
                    return {"ok": False, "goal": _GOAL, "why": f"{config_name}, {load_name}: {why}"}
                most = 1 if load_name == "one at a time" else len(workload.requests)
                margins[f"{config_name}, {load_name}"] = _margins(
                    roofline, target.facts(config), result.measurement, most
                )
    smallest = min(value for each in margins.values() for value in each.values())
    return {
        "value": round(smallest, 2),
        "goal": _GOAL,
        "ok": smallest > 1,
        "margins": {name: {key: round(value, 2) for key, value in each.items()} for name, each in margins.items()},
        "roofline": roofline.to_json(),
        "ridge_flop_per_byte": round(roofline.ridge_flop_per_byte, 1),
        "safety": SAFETY,
    }


_GOAL = "every margin above 1: no honest result is refused"


def _margins(roofline: Roofline, facts: ModelFacts, measured: Measurement, batch: int) -> dict[str, float]:
    summary = summarise(measured)
    prompts = [record.prompt_tokens or 0 for record in measured.records]
    floor = floor_ms(roofline, facts, min(prompts), context_tokens=min(prompts), output_tokens=SHAPE["output_tokens"])
    traffic = Traffic(sum(prompts) / len(prompts), sum(prompts) / len(prompts), SHAPE["output_tokens"], batch)
    above = {name: summary[f"median_{name}"] / getattr(floor, name) for name in ("ttft_ms", "tpot_ms", "e2el_ms")}
    below = {name: most / summary[name] for name, most in ceilings(roofline, facts, traffic).items()}
    return above | below
