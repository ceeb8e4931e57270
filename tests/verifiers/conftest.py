"""Honest evidence, built from real data types; each test tells one lie about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.verifiers.eval_results import honest_evals
from tests.verifiers.proofs import with_proofs
from tools.canonical import digest
from tools.deployment import Deployment
from tools.measure import ClientHealth, Measurement, RequestRecord, materialise, sharing_bound, summarise
from tools.measure.workload import WorkloadSpec
from tools.profile.physics import ModelFacts
from tools.service.load_spec import at_load
from tools.targets import Config, Identity, Knob, KnobSpace
from verifiers import Evidence, Plan, TrialEvidence

DEPLOYMENT: dict[str, Any] = {
    "name": "chat",
    "model": "tiny",
    "config": {"max_num_seqs": 2, "dtype": "bf16", "max_queue_len": 64},
    "workload": {
        "class": "chat",
        "requests": 10,
        "system_prompt_tokens": 40,
        "prompt_tokens": {"min": 10, "max": 20},
        "output_tokens": 8,
        "arrivals": {"kind": "constant", "rate_rps": 5},
    },
    "slo": {"ttft_ms": {"p95": 400}},
    "objective": {"metric": "p95_ttft_ms", "min_effect": 0.1},
    "guardrails": [{"metric": "output_throughput", "max_regression": 0.1}],
    "acceptance": {"trials_per_arm": 4, "alpha": 0.05},
}

SPACE = KnobSpace(
    {
        "max_num_seqs": Knob("max_num_seqs", "int", 32, "seats", low=1, high=512, log=True),
        "block_size": Knob("block_size", "choice", 16, "block", choices=(8, 16, 32)),
        "num_threads": Knob("num_threads", "int", 0, "threads", low=0, high=64, auto=0),
        "dtype": Knob("dtype", "choice", "bf16", "dtype", choices=("bf16", "int8"), outputs="lossy"),
        "max_queue_len": Knob("max_queue_len", "int", 64, "queue", low=1, high=1000, tunable=False),
    }
)

RESOURCES = {
    "cores": 4.0,
    "gpus": 0.0,
    "replicas": 1.0,
    "rss_before_bytes": float(900 << 20),
    "rss_middle_bytes": float(910 << 20),
    "rss_after_bytes": float(912 << 20),
}


def trial(
    trial_id: str,
    config: Config,
    seed: int,
    *,
    ttft_s: float,
    arm: str = "A",
    role: str = "confirm",
    seq: int = 10,
    load_factor: float = 1.0,
    block: int | None = None,
    spec: WorkloadSpec | None = None,
    deployment: Deployment,
) -> TrialEvidence:
    """A trial in which every request waits `ttft_s`, then streams its tokens 10 ms apart."""
    workload = materialise(spec or at_load(deployment.workload, load_factor), seed)
    records = []
    for request in workload.requests:
        due = request.scheduled_s or 0.0
        first = due + ttft_s * (1 + 0.01 * request.index)
        times = tuple(first + 0.010 * i for i in range(request.max_tokens))
        records.append(
            RequestRecord(
                index=request.index,
                scheduled_s=due,
                sent_s=due + 0.0005 + 1e-7 * seq,  # no two launches are alike in every moment
                outcome="ok",
                end_s=times[-1] + 0.001,
                http_status=200,
                first_chunk_s=first,
                token_times_s=times,
                token_counts=(1,) * len(times),
                prompt_tokens=request.own_words + 50,
                output_tokens=len(times),
                cached_tokens=0,
                token_source="token_ids",
                token_ids=tuple(range(len(times))),
                finish_reason="length",
            )
        )
    started = 1_700_000_000.0 + 100 * seq
    effective = {**config.values, "num_threads": 2}
    identity = Identity(
        model="tiny",
        model_digest="m" * 64,
        config=effective,
        config_digest=digest(effective),
        started_at=started,
        process_started_at=started - 2,
        pid=seq,
        engine="autotune-engine 0.1.0",
    )
    generated = float(sum(r.output_tokens or 0 for r in records))
    prompt = float(sum(r.prompt_tokens or 0 for r in records))
    counted = {
        "requests": float(len(records)),
        "preemptions": 0.0,
        "prompt_tokens": prompt,
        "generation_tokens": generated,
        "prefix_queries_tokens": prompt,
        "prefix_hit_tokens": prompt / 2,
        "rejected": 0.0,
        "aborted": 0.0,
        "e2e_seconds_sum": sum(r.token_times_s[-1] - r.sent_s - 0.001 for r in records),
        "e2e_seconds_count": float(len(records)),
        "ttft_seconds_sum": sum(r.token_times_s[0] - r.sent_s - 0.001 for r in records),
        "ttft_seconds_count": float(len(records)),
    }
    measurement = Measurement(
        workload_digest=workload.digest,
        spec_digest=workload.spec_digest,
        seed=seed,
        config_digest=config.digest,
        offered=len(records),
        started_at=started + 5,
        window_s=max(r.end_s for r in records),
        records=tuple(records),
        client=ClientHealth(send_lag_p99_ms=0.5, cpu_share=0.05),
        extras=("return_token_ids", "ignore_eos"),
        identity_before=identity,
        identity_after=identity,
        counters_before=dict.fromkeys(counted, 0.0),
        counters_after=counted,
    )
    summary = summarise(measurement, deployment.slo)
    return TrialEvidence(
        id=trial_id,
        seq=seq,
        role=role,
        arm=arm,
        config=config,
        seed=seed,
        spec_digest=workload.spec_digest,
        asked_tokens=tuple(request.max_tokens for request in workload.requests),
        declared_sharing=sharing_bound(workload, records),
        environment="e" * 64,
        measurement=measurement,
        evals=honest_evals(seq),
        summary=summary,
        recorded_summary=summary,
        load_factor=load_factor,
        block=block,
        ready_s=2.0 + 0.01 * (seq % 5),
        resources=RESOURCES,
        began_at=started - 3,
        recorded_at=started + 6 + measurement.window_s,
        prompt_words=tuple(workload.prompt_words),
        due_s=tuple(request.scheduled_s for request in workload.requests),
    )


def with_measurement(t: TrialEvidence, deployment: Deployment, **changes: Any) -> TrialEvidence:
    """The trial with a changed measurement and the summary that follows from it, which its entry claims too."""
    assert t.measurement is not None
    measurement = replace(t.measurement, **changes)
    summary = summarise(measurement, deployment.slo)
    return replace(t, measurement=measurement, summary=summary, recorded_summary=summary)


Confirmation = Callable[..., Evidence]


@pytest.fixture
def deployment() -> Deployment:
    return Deployment.model_validate(DEPLOYMENT)


@pytest.fixture
def confirmation(deployment: Deployment) -> Confirmation:
    """Builds a whole confirmation; `baseline` and `candidate` are TTFTs in seconds, one a launch."""

    def build(
        baseline: tuple[float, ...] = (0.80, 0.82, 0.79, 0.81),
        candidate: tuple[float, ...] = (0.20, 0.21, 0.19, 0.22),
        patch: dict[str, Any] | None = None,
    ) -> Evidence:
        standing = SPACE.resolve(deployment.config)
        proposed = standing.patched(patch or {"max_num_seqs": 16})
        plan = Plan.draw("run-1", deployment, standing.digest, proposed.digest)
        waits = {"A": iter(baseline), "B": iter(candidate)}
        trials = tuple(
            trial(
                f"c{number}",
                standing if slot.arm == "A" else proposed,
                slot.seed,
                ttft_s=next(waits[slot.arm]),
                arm=slot.arm,
                seq=20 + number,
                load_factor=slot.load_factor,
                block=slot.block,
                deployment=deployment,
            )
            for number, slot in enumerate(plan.slots)
        )
        search = (trial("b1", standing, 7, ttft_s=0.8, role="baseline", seq=3, deployment=deployment),)
        evidence = Evidence(
            deployment=deployment,
            managed=frozenset({"max_num_seqs", "block_size", "num_threads", "dtype", "max_queue_len"}),
            space=SPACE,
            baseline=standing,
            workload_spec_digest=deployment.workload.digest,
            memory_bytes=8 << 30,
            floors_ms={"ttft_ms": 5.0, "tpot_ms": 1.0, "e2el_ms": 12.0},
            roofline={"read_bytes_per_s": 1e10, "flops_per_s_bf16": 4e11, "flops_per_s_fp32": 2e11},
            physics={"model": ModelFacts(13_000_000, 6_000_000, 500_000, 256, ((0, 4),)).to_json()},
            model_digest="m" * 64,
            candidate=proposed,
            memory_need_bytes=1 << 30,
            plan=plan,
            plan_digest=plan.digest,
            plan_seq=15,
            trials=trials,
            search=search,
        )
        return with_proofs(evidence, trial)

    return build
