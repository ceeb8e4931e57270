"""Roofline and physics: measured rates, what follows from them, and bounds that no honest result breaks."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_model import build_tiny_model
from tools.errors import UserError
from tools.profile import (
    SAFETY,
    Checkpoint,
    ModelFacts,
    Roofline,
    Traffic,
    ceilings,
    floor_ms,
)
from tools.profile.probe import measure_roofline
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import KnobError

ROOF = Roofline(read_bytes_per_s=30e9, flops_per_s_bf16=400e9, flops_per_s_fp32=150e9)
FACTS = ModelFacts(270_000_000, 106_000_000, head_parameters=28_000_000, kv_bytes=768, kv_layers=((0, 30),))


def test_the_measured_roofline_is_a_machine_that_could_exist() -> None:
    roof = measure_roofline(threads=1, seconds=0.6, step_bytes=2 << 20)
    assert 0.1e9 < roof.read_bytes_per_s < 2e12
    assert 0.1e9 < roof.flops_per_s_fp32 < 1e14 and roof.flops_per_s_bf16 > 0
    assert Roofline.from_json(json.loads(json.dumps(roof.to_json()))) == roof


def test_a_device_that_isnt_there_is_an_error_for_people() -> None:
    with pytest.raises(UserError, match="couldn't be measured on abacus"):
        measure_roofline(device="abacus", seconds=0.1)


def test_the_ridge_point_is_where_bandwidth_and_arithmetic_take_equally_long() -> None:
    assert ROOF.flops_per_s == 400e9
    assert ROOF.ridge_flop_per_byte == pytest.approx(400 / 30)


def test_a_checkpoint_is_read_by_its_headers_and_a_tied_embedding_counts_as_output_head(tmp_path: Path) -> None:
    tied = Checkpoint.read(build_tiny_model(tmp_path / "tied"))
    untied = Checkpoint.read(build_tiny_model(tmp_path / "untied", tie_word_embeddings=False))
    assert tied == untied  # untied, the input embedding is only looked up, and the head is read in its place
    assert tied.head_parameters == 512 * 64
    assert tied.step_bytes == 4 * (tied.token_parameters + tied.head_parameters)


def test_an_unreadable_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found none"):
        Checkpoint.read(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(UserError, match=r"model\.safetensors"):
        Checkpoint.read(tmp_path)


def test_what_a_token_costs_depends_on_the_format_and_on_what_may_still_change(tmp_path: Path) -> None:
    target = BundledTarget(build_tiny_model(tmp_path / "tiny"))
    wide = target.knobs.resolve({"dtype": "fp32"})
    facts, narrow = target.facts(wide), target.facts(target.knobs.resolve({"dtype": "bf16"}))
    parameters = facts.token_parameters + facts.head_parameters
    assert facts.step_bytes == 4 * parameters == Checkpoint.read(target.model_dir).step_bytes
    assert facts == target.facts(target.knobs.resolve({}))  # auto: the checkpoint's own fp32
    assert narrow.step_bytes == 2 * parameters
    assert (facts.kv_bytes, narrow.kv_bytes) == (2 * 2 * 16 * 4, 2 * 2 * 16 * 2)
    assert facts.kv_layers == ((0, 2),) and facts.arithmetic_gain == 1.0
    eight = target.facts(wide.patched({"quantization": "int8"}))
    assert (eight.step_bytes, eight.arithmetic_gain) == (parameters, 2.0)
    leanest = target.facts(wide, free={"quantization", "kv_cache_dtype", "max_num_seqs"})
    assert leanest.step_bytes == facts.token_parameters // 2 + facts.head_parameters
    assert leanest.kv_bytes == 2 * 2 * 16


def test_layers_with_a_window_read_no_more_than_it(tmp_path: Path) -> None:
    target = BundledTarget(build_tiny_model(tmp_path / "gemma", model_type="gemma3_text"))
    facts = target.facts(target.knobs.resolve({}))
    assert sorted(facts.kv_layers) == [(0, 1), (48, 1)]
    assert facts.context_bytes(40) == 2 * 40 * facts.kv_bytes
    assert facts.context_bytes(1000) == (48 + 1000) * facts.kv_bytes


def test_a_model_that_cant_be_run_has_no_cost(tmp_path: Path) -> None:
    target = BundledTarget(build_tiny_model(tmp_path / "odd", architectures=["Perceptron"]))
    with pytest.raises(KnobError, match="Perceptron"):
        target.facts(target.knobs.resolve({}))


def test_facts_survive_the_ledger() -> None:
    assert ModelFacts.from_json(json.loads(json.dumps(FACTS.to_json()))) == FACTS


def test_floors_follow_the_formulas_and_the_dearer_resource_sets_ttft() -> None:
    one, many = floor_ms(ROOF, FACTS, 1), floor_ms(ROOF, FACTS, 1000)
    assert one.tpot_ms == one.ttft_ms == one.e2el_ms == pytest.approx(270e6 / 30e9 * 1000 / SAFETY)
    assert many.tpot_ms == one.tpot_ms
    assert many.ttft_ms == pytest.approx(2 * 106e6 * 1000 / 400e9 * 1000 / SAFETY)
    far = floor_ms(ROOF, FACTS, 1000, context_tokens=2000, output_tokens=11)
    context_bytes = 2000 * 30 * 768
    assert far.tpot_ms == pytest.approx((270e6 + context_bytes) / 30e9 * 1000 / SAFETY)
    assert far.e2el_ms == pytest.approx(many.ttft_ms + 10 * far.tpot_ms)
    assert floor_ms(ROOF, replace(FACTS, arithmetic_gain=2.0), 1000).ttft_ms == pytest.approx(many.ttft_ms / 2)


def test_ceilings_follow_the_formulas_and_the_dearer_resource_sets_them() -> None:
    alone = ceilings(ROOF, FACTS, Traffic(prompt_tokens=64, new_tokens=32, output_tokens=100, batch=1))
    bytes_read = 100 * 270e6 + 99 * 32 * 30 * 768
    assert alone["request_throughput"] == pytest.approx(SAFETY * 30e9 / bytes_read)
    assert alone["output_throughput"] == pytest.approx(100 * alone["request_throughput"])
    assert alone["total_token_throughput"] == pytest.approx(164 * alone["request_throughput"])
    crowd = ceilings(ROOF, FACTS, Traffic(prompt_tokens=64, new_tokens=32, output_tokens=100, batch=256))
    flops = 2 * 106e6 * (32 + 99) + 2 * 28e6 * 100
    assert crowd["request_throughput"] == pytest.approx(SAFETY * 400e9 / flops)


@given(
    prompt=st.floats(1, 1e5),
    share=st.floats(0, 1),
    output=st.integers(1, 4096),
    batch=st.integers(1, 512),
    more=st.floats(1, 10),
)
def test_more_work_never_raises_a_ceiling_nor_lowers_a_floor(
    prompt: float, share: float, output: int, batch: int, more: float
) -> None:
    base = Traffic(prompt, prompt * (1 - share), output, batch)
    requests = ceilings(ROOF, FACTS, base)["request_throughput"]
    for changes in ({"new_tokens": base.new_tokens * more}, {"output_tokens": output * more}, {"batch": batch / more}):
        assert ceilings(ROOF, FACTS, replace(base, **changes))["request_throughput"] <= requests * (1 + 1e-9)
    floor, higher = floor_ms(ROOF, FACTS, prompt), floor_ms(ROOF, FACTS, prompt * more, context_tokens=prompt)
    assert higher.ttft_ms >= floor.ttft_ms and higher.tpot_ms >= floor.tpot_ms


@given(prompt=st.integers(1, 4096), output=st.integers(2, 1024))
def test_a_machine_as_fast_as_its_floors_meets_its_ceiling_at_batch_one(prompt: int, output: int) -> None:
    """Two derivations of the same physics: one request after another, each at its floor."""
    floor = floor_ms(ROOF, FACTS, prompt, context_tokens=prompt, output_tokens=output)
    most = ceilings(ROOF, FACTS, Traffic(prompt, prompt, output, batch=1))["request_throughput"]
    assert 1000 / floor.e2el_ms <= most * (1 + 1e-9)


def test_figures_measured_by_good_engines_lie_between_the_bounds() -> None:
    """SmolLM2-135M on two cores with 31 GB/s: its fastest known step takes 10 ms, 256 prompt tokens take 181 ms."""
    facts = ModelFacts(269_030_016, 106_203_456, 28_311_552, kv_bytes=768, kv_layers=((0, 30),))
    roof = Roofline(read_bytes_per_s=31e9, flops_per_s_bf16=450e9, flops_per_s_fp32=200e9)
    floor = floor_ms(roof, facts, 256)
    assert floor.tpot_ms < 10 and floor.ttft_ms < 181
    assert ceilings(roof, facts, Traffic(256, 256, 64, batch=1))["output_throughput"] > 64 / (0.181 + 63 * 0.010)
    assert math.isfinite(floor.e2el_ms)
