"""A real engine, launched and loaded once: every measurement rule passes it, and each physical bound has room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.tiny_model import build_tiny_model
from tests.verifiers.conftest import DEPLOYMENT
from tools.deployment import Deployment
from tools.measure import materialise, sharing_bound, summarise
from tools.profile import Roofline, floor_ms, hardware
from tools.profile.peak import peak_flops_per_s, peak_read_bytes_per_s
from tools.targets.bundled import BundledTarget
from tools.trial import run_trial
from verifiers import Evidence, Rule, TrialEvidence
from verifiers.rules.measurement import RULES

CONFIG = {"num_threads": 1, "kv_cache_tokens": 2048, "max_num_batched_tokens": 128, "dtype": "fp32"}
WORKLOAD = {**DEPLOYMENT["workload"], "requests": 16, "arrivals": {"kind": "constant", "rate_rps": 20}}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """What the harness would know after one trial of a baseline."""
    root = tmp_path_factory.mktemp("live")
    target = BundledTarget(build_tiny_model(root / "tiny"))
    deployment = Deployment.model_validate({**DEPLOYMENT, "config": CONFIG, "workload": WORKLOAD, "guardrails": []})
    config, workload = target.knobs.resolve(CONFIG), materialise(deployment.workload, 11)
    facts = target.facts(config)
    roofline = Roofline(
        peak_read_bytes_per_s("cpu", 0.2, facts.step_bytes),
        peak_flops_per_s("cpu", torch.bfloat16, 0.1),
        peak_flops_per_s("cpu", torch.float32, 0.1),
    )
    began_at = time.time()
    result = run_trial(target, config, workload, log=root / "engine.log", ready_timeout_s=120)
    measured = result.measurement
    assert measured is not None, result.failure
    summary = summarise(measured, deployment.slo)
    trial = TrialEvidence(
        id="b1",
        seq=3,
        role="baseline",
        arm="A",
        config=config,
        seed=workload.seed,
        spec_digest=workload.spec_digest,
        asked_tokens=tuple(request.max_tokens for request in workload.requests),
        declared_sharing=sharing_bound(workload, measured.records),
        environment=hardware().fingerprint,
        measurement=measured,
        summary=summary,
        recorded_summary=summary,
        ready_s=result.ready_s,
        began_at=began_at,
        recorded_at=time.time(),
        due_s=tuple(request.scheduled_s for request in workload.requests),
    )
    floor = floor_ms(roofline, facts, deployment.workload.least_new_tokens)
    yield Evidence(
        deployment=deployment,
        managed=frozenset(),
        space=target.knobs,
        baseline=config,
        workload_spec_digest=deployment.workload.digest,
        memory_bytes=hardware().memory_bytes,
        floors_ms={"ttft_ms": floor.ttft_ms, "tpot_ms": floor.tpot_ms, "e2el_ms": floor.e2el_ms},
        model_digest=target.model_digest(),
        roofline=roofline.to_json(),
        physics={"model": facts.to_json()},
        trials=(trial,),
        search=(trial,),
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_real_trial_passes(live: Evidence, rule: Rule) -> None:
    verdict = rule.verify(live)
    assert verdict.status == "PASS", verdict.sentence


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_same_trial_offered_as_a_candidate_beside_itself_passes(live: Evidence, rule: Rule) -> None:
    verdict = rule.verify(live.about([replace(live.trials[0], id="t1", role="search", arm="B")]))
    assert verdict.status == "PASS", verdict.sentence
