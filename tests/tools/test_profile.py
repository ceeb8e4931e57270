"""Hardware and roofline: stable facts, and floors that no honest result undercuts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny_model import build_tiny_model
from tools.errors import UserError
from tools.profile import ModelFacts, Roofline, floor_ms, hardware, measure_roofline

ROOF = Roofline(read_bytes_per_s=30e9, flops_per_s_bf16=400e9, flops_per_s_fp32=150e9)


def test_the_machine_has_one_fingerprint_and_any_change_another() -> None:
    machine = hardware()
    assert machine == hardware() and machine.fingerprint == hardware().fingerprint
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    assert machine.memory_bytes > 100 << 20
    assert any(package.startswith("torch ") for package in machine.packages)
    assert replace(machine, packages=("torch 1.0",)).fingerprint != machine.fingerprint
    assert json.loads(json.dumps(machine.to_json()))["cores"] == machine.cores


def test_asking_for_the_hardware_does_not_import_torch() -> None:
    story = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tools.profile; tools.profile.hardware()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", story, Path(__file__).parents[2]], check=True)


def test_gpus_are_listed_as_the_driver_tells_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.1'\necho 'NVIDIA H200, 143000 MiB, 580.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    machine = hardware()
    assert len(machine.gpus) == 2 and machine.gpu_memory_bytes == 143000 << 20


def test_the_measured_roofline_is_a_machine_that_could_exist() -> None:
    roof = measure_roofline(threads=1, seconds=0.6)
    assert 0.1e9 < roof.read_bytes_per_s < 2e12
    assert 0.1e9 < roof.flops_per_s_fp32 < 1e14 and roof.flops_per_s_bf16 > 0
    assert Roofline.from_json(json.loads(json.dumps(roof.to_json()))) == roof


def test_a_device_that_isnt_there_is_an_error_for_people() -> None:
    with pytest.raises(UserError, match="couldn't be measured on abacus"):
        measure_roofline(device="abacus", seconds=0.1)


def test_facts_are_read_from_the_checkpoint_and_a_tied_embedding_counts_as_output_head(tmp_path: Path) -> None:
    tied = ModelFacts.read(build_tiny_model(tmp_path / "tied"))
    untied = ModelFacts.read(build_tiny_model(tmp_path / "untied", tie_word_embeddings=False))
    assert tied == untied  # untied, the input embedding is only looked up, and the head is read in its place
    embedding = 512 * 64
    assert tied.step_bytes == 4 * (tied.token_parameters + embedding)


def test_an_unreadable_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found none"):
        ModelFacts.read(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(UserError, match=r"model\.safetensors"):
        ModelFacts.read(tmp_path)


def test_floors_follow_the_formulas_and_the_dearer_resource_sets_ttft() -> None:
    facts = ModelFacts(step_bytes=270_000_000, token_parameters=106_000_000)
    one, many = floor_ms(ROOF, facts, 1), floor_ms(ROOF, facts, 1000)
    assert one.tpot_ms == one.ttft_ms == pytest.approx(270e6 / 30e9 * 1000 / 1.3)
    assert many.tpot_ms == one.tpot_ms
    assert many.ttft_ms == pytest.approx(2 * 106e6 * 1000 / 400e9 * 1000 / 1.3)


def test_figures_measured_by_good_engines_lie_above_the_floor() -> None:
    """SmolLM2-135M on two cores with 31 GB/s: its fastest known step takes 10 ms, 256 prompt tokens take 181 ms."""
    facts = ModelFacts(step_bytes=269_030_016, token_parameters=106_203_456)
    roof = Roofline(read_bytes_per_s=31e9, flops_per_s_bf16=450e9, flops_per_s_fp32=200e9)
    floor = floor_ms(roof, facts, 256)
    assert floor.tpot_ms < 10 and floor.ttft_ms < 181
