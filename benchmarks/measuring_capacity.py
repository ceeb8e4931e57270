"""Rows of the capacity planner: `least_replicas`, `capacity_speed`, `two_replicas`.

The first two are simulations against simulations; the last one is two real engines behind a real balancer.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import NAME, Server, free_port, model_dir
from benchmarks.plain_balancer import PlainBalancer
from tools.capacity import (
    BALANCERS,
    Demand,
    Effort,
    FleetModel,
    Mix,
    Question,
    least_replicas,
    play,
    simulate,
)
from tools.capacity.steady import floors_ms
from tools.measure import Measurement, Slo, WorkloadSpec, materialise, summarise
from tools.measure.client import drive, warm_up
from tools.measure.draw import draw
from tools.service import Fit, Job, Replica, ServiceCurve
from tools.service.campaign import calibrate_service
from tools.service.load_spec import at_rate
from tools.targets.target import Endpoint

__all__ = ["capacity_speed", "plan_random_fleets", "two_replicas"]

BRUTE_SEED = 900_000
"""The brute force draws traffic of its own."""
BRUTE_MOST = 400_000
"""Requests that it watches one fleet for, at most."""

PREDICTED = ("p95_ttft_ms", "p95_e2el_ms")
TWO_REPLICAS: dict[str, Any] = {
    "class": "chat",
    "prompt_tokens": {"mean": 60, "std": 30, "min": 16, "max": 150},
    "output_tokens": {"min": 16, "max": 48},
    "arrivals": {"kind": "poisson", "rate_rps": 1},
}


def plan_random_fleets(quick: bool = False) -> dict[str, Any]:
    """Row `least_replicas`: the planner against trying 1, 2, 3 ... replicas until the promise holds, on other traffic.

    Curves, lengths, balancers, burstiness, rates and promises are drawn at random. The brute force watches each fleet
    twice as long as the planner does in one simulation, and doubts nothing: the first count within every bound is it.
    """
    fleets = 12 if quick else 100
    differences: list[int] = []
    odd: list[dict[str, Any]] = []
    counts: list[int] = []
    started = time.monotonic()
    for number in range(fleets):
        question, rate_rps = random_question(number)
        planned = least_replicas(question, rate_rps).replicas
        tried = by_trying(question, rate_rps, seed=BRUTE_SEED + number)
        differences.append(planned - tried)
        counts.append(tried)
        sys.stderr.write(f"fleet {number}: planned {planned}, tried {tried}\n")
        if planned - tried not in (0, 1):
            odd.append({"fleet": number, "planned": planned, "tried": tried})
    good = sum(difference in (0, 1) for difference in differences)
    counted = {f"{value:+d}": differences.count(value) for value in sorted(set(differences))}
    return {
        "value": good / fleets,
        "goal": "equal or +1 in >= 0.95",
        "ok": None if quick else good / fleets >= 0.95,
        "fleets": fleets,
        "replicas": {"least": min(counts), "median": float(np.median(counts)), "most": max(counts)},
        "planned minus tried": counted,
        "others": odd,
        "seconds": round(time.monotonic() - started, 1),
    }


def random_question(number: int) -> tuple[Question, float]:
    """A fleet, a promise that some number of replicas can keep, and a rate."""
    random = np.random.default_rng((7, number))
    seats = int(random.choice([4, 8, 16, 32, 64, 128]))
    first_s = float(np.exp(random.uniform(np.log(0.005), np.log(0.04))))
    last_s = first_s * random.uniform(1.2, 1 + 0.6 * seats**0.7)
    curve = ServiceCurve(
        f"fleet-{number}",
        "",
        seats,
        overhead_s=float(random.uniform(0.001, 0.05)),
        prefill_s_per_token=float(np.exp(random.uniform(np.log(1e-6), np.log(2e-4)))),
        steps=((1.0, first_s), (float(seats), float(last_s))),
        prompt_tokens=float(np.exp(random.uniform(np.log(50), np.log(2000)))),
        output_tokens=float(np.exp(random.uniform(np.log(10), np.log(400)))),
    )
    replica = Replica(curve, int(random.choice([512, 2048, 8192])))
    model = FleetModel(replica, BALANCERS[random.integers(len(BALANCERS))])
    mix = Mix.of_curve(curve)
    wanted = {
        "ttft_ms": {str(random.choice(["p50", "p90", "p95", "p99"])): 1.0},
        **({"tpot_ms": {"p95": 1.0}} if random.random() < 0.5 else {}),
        **({"e2el_ms": {"p95": 1.0}} if random.random() < 0.3 else {}),
    }
    # Bounds about what a request takes in half-filled company: they aren't met by idle fleets alone.
    busy = replace(curve, steps=((1.0, curve.step_s(seats / 2)),))
    floors = floors_ms(replace(replica, curve=busy), mix, Slo.model_validate(wanted))
    promise: dict[str, dict[str, float]] = {}
    for name, floor in floors.items():
        statistic, metric = name.split("_", 1)
        company_ms = 2000 * curve.step_s(seats / 2) if metric == "ttft_ms" else 0.0
        promise.setdefault(metric, {})[statistic] = (floor + company_ms) * float(random.uniform(1.1, 4.0))
    cv = float(random.choice([0.5, 1.0, 1.0, 1.5, 2.5]))
    question = Question(model, mix, Slo.model_validate(promise), cv, Effort(seed=number))
    return question, question.most_rps * float(np.exp(random.uniform(np.log(0.3), np.log(30))))


def by_trying(question: Question, rate_rps: float, seed: int) -> int:
    """The first count, from the fewest that can do the work, whose simulation lies within every bound."""
    count = math.floor(rate_rps / question.most_rps) + 1
    while True:
        load = rate_rps / (count * question.most_rps)
        wanted = max(25_000, 20 * (1 + question.cv**2) / 2 / (1 - math.sqrt(load)) ** 2)
        demand = Demand(question.mix, rate_rps, question.cv)
        found = simulate(question.model, count, demand, requests=math.ceil(min(wanted, BRUTE_MOST)), seed=seed)
        if all(found.value_ms(name) <= bound for name, bound in question.slo.bounds().items()):
            return count
        count += 1


def capacity_speed(quick: bool = False) -> dict[str, Any]:
    """Seconds to plan a fleet of about 10,000 replicas, with a million requests in each simulation at
    full size."""
    curve = ServiceCurve("large", "", 64, 0.01, 2e-5, ((1, 0.01), (16, 0.014), (64, 0.03)), 600, 120)
    effort = Effort(requests=50_000 if quick else 1_000_000, most_requests=1_000_000)
    question = Question(
        FleetModel(Replica(curve, 2048)),
        Mix.of_curve(curve),
        Slo(ttft_ms={"p95": 100}, tpot_ms={"p95": 40}),
        1.0,
        effort,
    )
    started, cpu_s = time.perf_counter(), time.process_time()
    found = least_replicas(question, question.most_rps * (900 if quick else 9_300))
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    return {
        "value": round(seconds, 1),
        "goal": "<= 60 s on one core for 10,000 replicas and 1,000,000 requests",
        "ok": None if quick else seconds <= 60 and found.replicas >= 10_000,
        "cpu_seconds": round(cpu_s, 1),
        "replicas": found.replicas,
        "utilisation": round(found.utilisation, 4),
        "requests_per_simulation": effort.requests,
        "requests_simulated": question.spent,
        "microseconds_per_request": round(cpu_s / question.spent * 1e6, 2),
    }


def two_replicas(quick: bool = False) -> dict[str, Any]:
    """Two engines, a core each, behind a least-connections balancer, against what one engine's calibration predicts.

    The curve is learnt from one engine through the same balancer. The prediction is the simulated fleet under the very
    requests that are then sent, and the row is the worst relative error of P95 TTFT and E2E latency over the loads.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return {"value": None, "goal": "within 0.15", "ok": None, "why": "needs two cores"}
    spec = WorkloadSpec.model_validate(TWO_REPLICAS | {"requests": 60 if quick else 600})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        engines = [stack.enter_context(engine_on(core, Path(folder))) for core in cores[:2]]
        fit = learnt(engines[0], spec, quick)
        model = FleetModel(fit.replica, "least-outstanding", fit.corrections)
        ceiling_rps = Question(model, Mix.of_curve(fit.replica.curve), Slo()).most_rps
        shares = (0.6,) if quick else (0.5, 0.65, 0.8)
        with PlainBalancer([engine.port for engine in engines]) as balancer:
            loads = [
                compared(model, fit, at_rate(spec, share * 2 * ceiling_rps), balancer.url, seed=100 + number)
                for number, share in enumerate(shares)
            ]
        loads = [{"share_of_ceiling": share, **load} for share, load in zip(shares, loads, strict=True)]
    worst = max(abs(load["error"][name]) for load in loads for name in PREDICTED)
    return {
        "value": round(worst, 3),
        "goal": "<= 0.15",
        "ok": None if quick else worst <= 0.15,
        "ceiling_rps_of_one": round(ceiling_rps, 3),
        "loads": loads,
        "curve": fit.replica.curve.to_json(),
    }


def engine_on(core: int, folder: Path) -> Server:
    """The bundled engine with one thread, bound to a core."""
    port = free_port()
    command = ["taskset", "-c", str(core), sys.executable, "-m", "engine", "serve", str(model_dir())]
    command += ["--port", str(port), "--served-model-name", NAME, "--num-threads", "1", "--max-num-seqs", "8"]
    return Server("engine", command, port, {"OMP_NUM_THREADS": "1"}, folder / f"engine-{port}.log")


def learnt(engine: Server, spec: WorkloadSpec, quick: bool) -> Fit:
    """What a calibration of one engine, behind the balancer, finds."""
    with PlainBalancer([engine.port]) as balancer:
        found = calibrate_service(
            Endpoint(balancer.url, NAME),
            spec,
            Slo(),
            target="one of two",
            requests=90 if quick else 300,
            budget_s=120 if quick else 300,
            seed=7,
            verify_loads=0,
        )
    return found.fit


def compared(model: FleetModel, fit: Fit, spec: WorkloadSpec, url: str, seed: int) -> dict[str, Any]:
    """Measured and predicted P95s of one load, and their relative differences."""
    workload = materialise(spec, seed)
    endpoint = Endpoint(url, NAME)
    dialect = warm_up(endpoint, workload)
    load = drive(endpoint, workload, dialect=dialect)
    measured = summarise(Measurement.of(workload, load, config_digest=""))
    jobs = fit.tokens.jobs(draw(spec, spec.requests, seed, part="measured", scheduled=True))
    predicted = predicted_ms(model, jobs, seed)
    error = {name: round(predicted[name] / measured[name] - 1, 3) for name in PREDICTED}
    return {
        "rate_rps": round(len(jobs) / max(job.due_s or 0.0 for job in jobs), 3),
        "measured_ms": {name: round(measured[name], 1) for name in PREDICTED},
        "predicted_ms": {name: round(value, 1) for name, value in predicted.items()},
        "error": error,
        "failed": measured["failed"],
    }


def predicted_ms(model: FleetModel, jobs: Sequence[Job], seed: int) -> dict[str, float]:
    """Means over several plays in which requests reach the engine a little earlier or later: who is read in which step
    hangs on milliseconds."""
    random = np.random.default_rng(seed)
    due_s = np.array([job.due_s for job in jobs], float)
    prompts, outputs = (np.array([getattr(job, name) for job in jobs]) for name in ("prompt_tokens", "output_tokens"))
    found: dict[str, list[float]] = {name: [] for name in PREDICTED}
    for number in range(16):
        moments = np.maximum(due_s + model.replica.latency_s * random.uniform(-1, 1, len(jobs)), 0.0)
        order = np.argsort(moments, kind="stable")
        run = play(model, 2, moments[order], prompts[order], outputs[order], seed=number)
        for name, values in found.items():
            values.append(model.corrected(name, run.value_ms(name)))
    return {name: float(np.mean(values)) for name, values in found.items()}
