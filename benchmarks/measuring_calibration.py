"""Row `calibration`: what a calibration of the bundled engine foretells of loads that it hasn't seen.

SmolLM2-135M on two threads. The calibration sends at most a third of the requests that a sweep over ten rates would.
Then three rates below the knee that it predicts are driven, each with a seed of its own; the predictions of those very
loads are made before they are sent. Anything else that runs on the machine is part of the error; what it used is told.
"""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.engine_speed import machine_cpu_s
from benchmarks.peers import model_dir
from tools.measure.calibrate import derive_seed
from tools.measure.client import drive, warm_up
from tools.measure.slo import Slo
from tools.measure.workload import WorkloadSpec, materialise
from tools.service import Phase, Predictor
from tools.service.campaign import calibrate_service
from tools.service.load_spec import at_rate
from tools.targets.bundled import BundledTarget
from tools.targets.target import Endpoint

__all__ = ["calibration"]

SWEEP_RATES = 10
KNEE_SHARES = (0.5, 0.7, 0.9)
GOAL = "P95 TTFT at three held-out rates below the knee within 15 %, with <= 1/3 of a sweep's requests"
METRICS = ("p50_ttft_ms", "p95_ttft_ms", "p50_itl_ms", "p95_itl_ms", "p95_e2el_ms")


def calibration(quick: bool = False) -> dict[str, Any]:
    """The largest error of the three predictions, as a share of what was measured."""
    spec = _mix(24 if quick else 120)
    target = BundledTarget(model_dir())
    knobs = {"dtype": "bf16", "num_threads": 2, "max_num_seqs": 16, "kv_cache_tokens": 16384, "max_model_len": 2048}
    with tempfile.TemporaryDirectory() as folder:
        endpoint = target.launch(target.knobs.resolve(knobs), log=Path(folder) / "server.log")
        try:
            return _row(endpoint, spec, target)
        finally:
            target.stop(endpoint)


def _row(endpoint: Endpoint, spec: WorkloadSpec, target: BundledTarget) -> dict[str, Any]:
    found = calibrate_service(
        endpoint,
        spec,
        Slo(),
        target="bundled",
        requests=SWEEP_RATES * spec.requests // 3,
        budget_s=600,
        reset=lambda: target.reset_cache(endpoint),
    )
    predictor = Predictor(found.fit, spec)
    dialect = warm_up(endpoint, materialise(spec, derive_seed(spec.seed, "held out")))
    errors, rates, others = [], [], []
    for share in KNEE_SHARES:
        rate_rps = share * found.knee_rps
        workload = materialise(at_rate(spec, rate_rps), derive_seed(spec.seed, f"held out at {share}"))
        foretold = predictor.load(workload.spec, workload.seed)
        target.reset_cache(endpoint)
        spare = _Spare(endpoint.pid)
        phase = Phase("held out", workload, drive(endpoint, workload, dialect=dialect), rate_rps)
        others.append(spare.others())
        seen = phase.summary()
        errors.append(abs(foretold["p95_ttft_ms"] / seen["p95_ttft_ms"] - 1))
        compared = {name: [round(foretold[name], 1), round(seen[name], 1)] for name in METRICS}
        rates.append({"rate_rps": round(rate_rps, 3), "foretold_and_seen": compared})
    worst, allowed = max(errors), SWEEP_RATES * spec.requests / 3
    return {
        "value": round(worst, 3),
        "goal": GOAL,
        "ok": worst <= 0.15 and found.requests_sent <= allowed,
        "errors": [round(error, 3) for error in errors],
        "requests": found.requests_sent,
        "sweep_requests": SWEEP_RATES * spec.requests,
        "knee_rps": round(found.knee_rps, 3),
        "capacity_rps": round(found.capacity_rps, 3),
        "rates": rates,
        "cores_used_by_others": [round(cores, 2) for cores in others],
        "doubts": [doubt.name for doubt in found.doubts],
    }


def _mix(requests: int) -> WorkloadSpec:
    return WorkloadSpec.model_validate(
        {
            "class": "chat",
            "requests": requests,
            "system_prompt_tokens": 96,
            "prompt_tokens": {"min": 16, "max": 160},
            "output_tokens": {"min": 12, "max": 40},
            "arrivals": {"kind": "poisson", "rate_rps": 2},
            "seed": 4,
        }
    )


class _Spare:
    """What everything but the server and this process uses from now on."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._machine_s, self._ours_s, self._started_s = machine_cpu_s(), self._ours(), time.monotonic()

    def others(self) -> float:
        """Cores, on average."""
        ours_s = self._ours() - self._ours_s
        return max(machine_cpu_s() - self._machine_s - ours_s, 0.0) / (time.monotonic() - self._started_s)

    def _ours(self) -> float:
        """CPU seconds of the server's process group and of this process."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it ended while we looked
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self._server_pid:
                    ticks += int(fields[11]) + int(fields[12])
        used = resource.getrusage(resource.RUSAGE_SELF)
        return ticks / os.sysconf("SC_CLK_TCK") + used.ru_utime + used.ru_stime
