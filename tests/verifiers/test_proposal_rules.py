"""What may be proposed: each lie is told where the owner's knob table would let it through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.knobs import knob_table
from tests.verifiers.conftest import SPACE, Confirmation
from tests.verifiers.proofs import BEGAN, entry, recorded
from tests.verifiers.proposals import GIB, faults, proposing
from tools.canonical import digest
from verifiers.rules.proposal import (
    RULES,
    feasibility_memory,
    history_thrash,
    policy_forbidden,
    policy_security,
    resources_frozen,
)

DAY_S = 86_400.0


def test_an_honest_proposal_passes_every_question(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert faults(proposing(evidence, "block_size", 32)) == {}
    assert [rule.id for rule in RULES if "confirm" in rule.stages and rule.verify(evidence).status != "PASS"] == []


def test_a_declared_loss_opens_lossy_knobs_and_nothing_else(confirmation: Confirmation) -> None:
    evidence = proposing(confirmation(), "dtype", "int8")
    assert faults(evidence) == {"policy.knobs": "FAIL"}
    declared = evidence.deployment.model_copy(update={"quality": {"perplexity": 0.02}})
    assert faults(replace(evidence, deployment=declared)) == {}
    unmarked = replace(evidence, deployment=declared, managed=frozenset({"block_size"}))
    assert faults(unmarked) == {"policy.knobs": "FAIL"}


# policy.forbidden
@pytest.mark.parametrize(
    "name",
    [
        "middleware",
        "--tool-parser-plugin",
        "trust_remote_code",
        "worker-cls",
        "worker_extension_cls",
        "kv_transfer_config",
        "hf-overrides",
        "chat-template",
        "lora_modules",
        "logits-processors",
        "allowed_local_media_path",
        "otlp-traces-endpoint",
        "speculative_draft_model_path",
        "distributed_executor_backend",
        "download_dir",
        "served_model_name",
        "override-generation-config",
        "custom_weight_loader",
        "mmproj",
        "model_url",
        "hf_repo",
        "slot_save_path",
        "grammar-file",
        "some_new_plugin",
        "trustRemoteCode",
        "LD_PRELOAD",
        "PYTHONPATH",
        "VLLM_ALLOW_INSECURE_SERIALIZATION",
        "OMP_NUM_THREADS",
        "model",
        "tokenizer",
    ],
)
def test_what_loads_code_or_reaches_out_is_refused_whatever_the_owners_table_says(
    confirmation: Confirmation, name: str
) -> None:
    assert policy_forbidden.verify(proposing(confirmation(), name, "b")).status == "FAIL"


def test_by_name_alone(confirmation: Confirmation) -> None:
    assert faults(proposing(confirmation(), "middleware", "evil")) == {"policy.forbidden": "FAIL"}


@pytest.mark.parametrize(
    "value", ["/etc/passwd", "../x", "org/model", "s3://x", "https://a", "evil.so", "a.b:c", "evil:hook", "x.jinja"]
)
def test_a_harmless_name_with_a_path_a_file_or_an_import_in_it(confirmation: Confirmation, value: str) -> None:
    assert policy_forbidden.verify(proposing(confirmation(), "policy", value)).status == "FAIL"


@pytest.mark.parametrize("value", ["fcfs", "fp8_e4m3", "none", "priority", "1.5x", "cubic-4"])
def test_the_values_of_ordinary_knobs_name_no_place(confirmation: Confirmation, value: str) -> None:
    assert faults(proposing(confirmation(), "policy", value)) == {}


# fmt: off
TUNABLE = (
    "max_running_requests", "chunked_prefill_size", "max_prefill_tokens", "enable_chunked_prefill",
    "prefill_schedule_interval", "gpu_memory_utilization", "kv_cache_memory_bytes", "mem_fraction_static",
    "num_gpu_blocks_override", "max_total_tokens", "page_size", "disable_radix_cache", "radix_eviction_policy",
    "scheduling_policy", "schedule_policy", "watermark", "schedule_conservativeness", "max_num_queued_reqs",
    "disable_overlap_schedule", "cudagraph_capture_sizes", "enforce_eager", "cuda_graph_max_bs", "optimization_level",
    "performance_mode", "enable_torch_compile", "spec_method", "spec_tokens", "speculative_num_steps",
    "attention_backend", "stream_interval", "num_continuous_decode_steps", "ubatch_size", "cache_type_k",
    "flash_attn", "cont_batching", "prefix_caching_hash_algo", "disable_custom_all_reduce",
)
# fmt: on


def test_knobs_of_performance_are_open(confirmation: Confirmation) -> None:
    tunable = [row.name for row in knob_table() if row.tunable]
    for name in (*TUNABLE, *tunable):
        evidence = proposing(confirmation(), name, "b") if name not in SPACE.knobs else confirmation()
        closed = [
            rule.RULE
            for rule in (policy_forbidden, policy_security, resources_frozen)
            if rule.verify(evidence).status != "PASS"
        ]
        assert closed == [], name


# policy.security
@pytest.mark.parametrize(
    "name",
    [
        "host",
        "port",
        "api-key",
        "admin_api_key",
        "allowed_origins",
        "allow_credentials",
        "cors_policy",
        "VLLM_SERVER_DEV_MODE",
        "tool_server",
        "ssl_certfile",
        "enable-tls",
        "enable_log_requests",
        "log_requests_level",
        "enable_log_outputs",
        "uvicorn_log_level",
        "no_webui",
    ],
)
def test_doors_keys_and_logs_are_the_owners(confirmation: Confirmation, name: str) -> None:
    assert policy_security.verify(proposing(confirmation(), name, "b")).status == "FAIL"


def test_a_host_is_refused_by_this_rule_alone(confirmation: Confirmation) -> None:
    assert faults(proposing(confirmation(), "host", "everywhere")) == {"policy.security": "FAIL"}
    assert policy_security.verify(proposing(confirmation(), "bind", "0.0.0.0")).status == "FAIL"


# resources.frozen
@pytest.mark.parametrize(
    "name",
    [
        "replicas",
        "min_replicas",
        "num_gpus",
        "tensor-parallel-size",
        "tp_size",
        "data_parallel_size",
        "nnodes",
        "num_cores",
        "enable_expert_parallel",
    ],
)
def test_more_hardware_is_no_gain(confirmation: Confirmation, name: str) -> None:
    assert faults(proposing(confirmation(), name, "b")) == {"resources.frozen": "FAIL"}


def test_a_candidate_measured_on_more_hardware_is_refused(confirmation: Confirmation) -> None:
    evidence = confirmation()
    assert resources_frozen.verify(evidence).status == "PASS"
    for name in ("cores", "gpus", "replicas"):
        more = evidence.about(
            replace(t, resources={**t.resources, name: t.resources[name] + 1}) if t.arm == "B" else t
            for t in evidence.trials
        )
        verdict = resources_frozen.verify(more)
        assert verdict.status == "FAIL" and name in verdict.sentence
        silent = evidence.about(
            replace(t, resources={k: v for k, v in t.resources.items() if k != name}) for t in evidence.trials
        )
        assert resources_frozen.verify(silent).status == "ERROR"
    assert resources_frozen.verify(evidence.about(evidence.arm("B"))).status == "ERROR"


# feasibility.memory
def test_room_to_spare_must_stay_unless_the_baseline_has_none(confirmation: Confirmation) -> None:
    evidence = confirmation()  # 8 GiB
    close = replace(evidence, memory_need_bytes=int(7.8 * GIB))
    assert faults(replace(close, plan=None)) == {"duplicate.config": "FAIL", "feasibility.memory": "FAIL"}
    assert feasibility_memory.verify(replace(evidence, memory_need_bytes=int(7.5 * GIB))).status == "PASS"
    tight = replace(close, entries=(*close.entries, entry(2, "survey", {"memory_need_bytes": int(7.9 * GIB)})))
    assert feasibility_memory.verify(tight).status == "PASS"
    assert feasibility_memory.verify(replace(tight, memory_need_bytes=9 * GIB)).status == "FAIL"


# history.thrash
def commit(changes: dict[str, list[Any]], *, days_ago: float, run: str = "") -> dict[str, Any]:
    return {
        "sha": digest([changes, days_ago]),
        "at": BEGAN - days_ago * DAY_S,
        "run": run,
        "changes": changes,
    }


@pytest.mark.parametrize(
    ("past", "refused"),
    [
        ([], False),
        ([commit({"max_num_seqs": [16, 2]}, days_ago=3, run="r1")], True),
        ([commit({"max_num_seqs": [14, 2]}, days_ago=3, run="r1")], True),
        ([commit({"max_num_seqs": [16, 2]}, days_ago=8, run="r1")], False),
        ([commit({"max_num_seqs": [1, 2]}, days_ago=3, run="r1")], False),
        ([commit({"block_size": [8, 16]}, days_ago=3, run="r1")], False),
        ([commit({"max_num_seqs": [16, 2]}, days_ago=3)], False),
        (
            [
                commit({"max_num_seqs": [16, 2]}, days_ago=30),
                commit({"max_num_seqs": [4, 16]}, days_ago=31, run="r1"),
            ],
            True,
        ),
        (
            [
                commit({"max_num_seqs": [4, 16]}, days_ago=30, run="r1"),
                commit({"max_num_seqs": [16, 4]}, days_ago=31),
            ],
            False,
        ),
    ],
)
def test_a_change_is_not_undone_again(confirmation: Confirmation, past: list[dict[str, Any]], refused: bool) -> None:
    evidence = recorded(confirmation(), "run.started", history=past)  # max_num_seqs 2 -> 16 is proposed
    verdict = history_thrash.verify(evidence)
    assert verdict.status == ("FAIL" if refused else "PASS")
    assert not refused or past[0]["sha"][:12] in verdict.sentence


def test_a_flag_flips_back_only_as_itself(confirmation: Confirmation) -> None:
    evidence = confirmation(patch={"dtype": "int8"})
    back = [commit({"dtype": ["int8", "bf16"]}, days_ago=1, run="r1")]
    other = [commit({"dtype": ["fp32", "bf16"]}, days_ago=1, run="r1")]
    assert history_thrash.verify(recorded(evidence, "run.started", history=back)).status == "FAIL"
    assert history_thrash.verify(recorded(evidence, "run.started", history=other)).status == "PASS"


def test_no_record_of_the_past_is_no_pass(confirmation: Confirmation) -> None:
    assert history_thrash.verify(recorded(confirmation(), "run.started", history=None)).status == "ERROR"
    assert history_thrash.verify(recorded(confirmation(), "run.started", history=[{}])).status == "ERROR"
    assert history_thrash.verify(replace(confirmation(), entries=())).status == "ERROR"
